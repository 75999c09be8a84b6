"""Kernels from the neighborhoods of memories: their covariances, their densities, and the choice of their parameters.

Parameters are chosen by the likelihood of held-out rows under kernels that are fitted on the other folds alone.
Covariances are shrunk towards the identity: by likelihood where there are many rows, else by Ledoit and Wolf's rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from ...._backend.arrays import Array, ArrayLike, as_floats, to_numpy
from ...._backend.checks import check_choice
from ...._backend.console import Progress
from ...._backend.parallel import Shared, effective_jobs, in_workers
from ...._backend.products import limit_to_one_thread
from ....core.mixture import pick_stratified
from ....core.neighbors import k_nearest

FLOOR = 1e-6
"""Least variance of a direction, as a share of the mean variance: constant columns stay nearly constant."""
SHRINKAGE = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the identity from which one is chosen by likelihood."""
MIN_ROWS_PER_FEATURE = 5
"""Least rows per feature for a choice by likelihood: with fewer, one Gaussian says little about kernels."""


def shrink_covariance(spread: Array, w: Array) -> tuple[Array, float]:
    """The covariance (1 − λ) S + λ tr(S)/d I of centered rows (k, d) that weigh w (k,), and its shrinkage λ.

    Ledoit and Wolf's λ has the least square error. Where columns nearly determine each other, it adds so much noise
    that the dependence is lost; a choice by likelihood keeps it.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    n, d = spread.shape
    if n == 1:
        return np.zeros((d, d)), 0.0
    rows = spread * np.sqrt(n * w)[:, None]  # weighted rows as so many rows of unit weight
    covariance = rows.T @ rows / n
    if n >= MIN_ROWS_PER_FEATURE * d:
        shrinkage = choose_shrinkage(rows)
    else:
        shrinkage = float(ledoit_wolf_shrinkage(rows, assume_centered=True))
    return (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / d * np.eye(d), shrinkage


def choose_shrinkage(rows: Array) -> float:
    """The λ of SHRINKAGE that is best by the leave-one-out likelihood of centered rows (n, d) under one Gaussian.

    With G = (1 − λ) n/(n−1) S + λ tr(S)/d I and r = xᵀ G⁻¹ x, the Gaussian without row x has the covariance G − β x xᵀ,
    β = (1 − λ)/(n − 1), and 2 log p(x) = −log |G| − log(1 − β r) − r/(1 − β r) + constant (Hoffbeck and Landgrebe,
    1996).
    """
    n = len(rows)
    powers, directions = np.linalg.eigh(rows.T @ rows / n)
    powers, level = np.maximum(powers, 0.0), max(float(powers.mean()), 1e-300)
    squares, best, most = np.square(rows @ directions), SHRINKAGE[-1], -math.inf
    for shrinkage in SHRINKAGE:
        variances = (1 - shrinkage) * n / (n - 1) * powers + (shrinkage + FLOOR) * level
        lengths = squares @ (1 / variances)
        room = np.maximum(1 - (1 - shrinkage) / (n - 1) * lengths, 1e-12)
        likelihood = -n * float(np.log(variances).sum()) - float((np.log(room) + lengths / room).sum())
        if likelihood > most:
            best, most = shrinkage, likelihood
    return best


NOISE = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
POOLED = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
NEIGHBORS = (5, 8, 12, 20, 30, 50, 80, 120, 200, 400)
N_EXPECTED_STEPS = 25
"""How many parameters a search typically tries, for its progress bar."""
MIN_ROWS = 8
"""Least rows from which a shape is learned: a class with fewer rows has the covariance that all classes share."""
FOLDS, MAX_HELD_OUT = 5, 200
"""Folds that score parameters, and the number of held-out memories after which further folds are not used."""
MAX_MEMORIES, MAX_LOCAL_NUMBERS = 10_000, 2**24
"""The most rows that have kernels, and the most numbers in their covariances. The time to find neighbors grows with the
square of the rows (10,000 rows of twelve columns take 5 s on one core); the covariances take 128 MiB for each copy."""


class KernelParams(NamedTuple):
    """Parameters of kernels: the share of noise s, the share of the pooled covariance b, and neighbors, 0 for all."""

    noise: float
    pooled: float
    neighbors: int

    def validate(self) -> KernelParams:
        """Return these parameters, or raise a ValueError where one is out of range."""
        is_integer = isinstance(self.neighbors, int | np.integer)
        if not (0 < self.noise <= 1 and 0 <= self.pooled <= 1 and self.neighbors >= 0 and is_integer):
            rule = "width must have noise above 0 and up to 1, pooled from 0 to 1 and neighbors of 0 (all) or more"
            raise ValueError(f"{rule}; got {tuple(self)}.")
        return self

    def __str__(self) -> str:
        among = f"its {self.neighbors} nearest rows" if self.neighbors else "all rows"
        mixed = f"a covariance that is {1 - self.pooled:.0%} their own and {self.pooled:.0%} the average of all rows"
        shape = {0.0: "their own covariance", 1.0: "the average covariance of all rows"}.get(self.pooled, mixed)
        shaped = f", with {shape}" if self.neighbors else ""
        return f"Gaussian noise around each stored row: {self.noise:.0%} of the variance among {among}{shaped}"

    def rescale(self, n: int, m: int) -> KernelParams:
        """The parameters for m rows that correspond to these for n rows: as large a share of the rows are neighbors."""
        return self._replace(neighbors=max(round(self.neighbors * m / n), 1)) if self.neighbors else self


class KernelCenters(NamedTuple):
    """The rows that have kernels: indices (m,) in rising order, and their weights (m,)."""

    rows: Array
    weights: Array


def count_memories(K: int, d: int, neighbors: int) -> int:
    """How many of K rows (K, d) have kernels: fewer where each kernel has its own covariance."""
    most = min(MAX_MEMORIES, max(MAX_LOCAL_NUMBERS // d**2, MIN_ROWS)) if neighbors else MAX_MEMORIES
    return min(K, most)


def choose_memories(w: Array, n: int, classes: Array | None = None) -> KernelCenters:
    """Choose n of the rows with weights w (K,), or all rows if there are no more. The choice is always the same.

    Each of the classes (K,) gets rows in proportion to its weight, at least MIN_ROWS or all that it has. A row may be
    chosen several times if its weight is large; its new weight counts each time.
    """
    if n >= len(w):
        return KernelCenters(np.arange(len(w)), w)
    rng, which = np.random.default_rng(0), np.zeros(len(w), dtype=np.intp) if classes is None else classes
    weights = np.zeros(len(w))
    for c in range(int(which.max()) + 1):
        members = np.flatnonzero(which == c)
        total = w[members].sum()
        size = max(round(n * total / w.sum()), MIN_ROWS)
        if size < len(members):
            picks = pick_stratified(np.log(w[members] / total), size, rng)
            weights[members] = np.bincount(picks, minlength=len(members)) * total / size
        else:
            weights[members] = w[members]
    rows = np.flatnonzero(weights)
    return KernelCenters(rows, weights[rows])


class FittedKernels(NamedTuple):
    """Means (k, d), roots of covariances (k, d, d) or (1, d, d), and log weights (k,) of the kernels of a class."""

    means: Array
    roots: Array
    log_weights: Array


class Moments:
    """Means and covariances of the neighborhoods of memories (K, d) with weights w (K,), within classes (K,).

    A neighborhood holds the `neighbors` nearest memories of the class, or the whole class where that is 0. Classes are
    numbers from 0 to C − 1; None stands for one class. Where only some rows are `memories` of kernels, neighborhoods
    hold only these; means, variances and the covariances of whole classes come from all rows.

    members:     the rows of each class
    kernel_rows: the memories of each class
    centers:     (K, d) means of neighborhoods
    local:       for each class its covariances (k, d, d), or (1, d, d) where the class is one neighborhood
    pooled:      (d, d) the mean of all covariances, shrunk
    variance:    (d,) within classes
    """

    def __init__(
        self, rows: Array, neighbors: int, w: Array, classes: Array | None = None, memories: KernelCenters | None = None
    ) -> None:
        K, d = rows.shape
        which = np.zeros(K, dtype=np.intp) if classes is None else classes
        at, weights = memories or KernelCenters(np.arange(K), w)
        self.members = [np.flatnonzero(which == c) for c in range(int(which.max()) + 1)]
        self.kernel_rows = [at[which[at] == c] for c in range(len(self.members))]
        self.rows, self.weights, self.kernel_weights = rows, w, np.zeros(K)
        self.kernel_weights[at] = weights
        self.centers, self.local, spread = np.empty((K, d)), [], np.empty((K, d))
        for members in self.members:
            spread[members] = rows[members] - w[members] / w[members].sum() @ rows[members]
        self.variance = w @ np.square(spread)
        if classes is None and self.variance.mean() <= 0:
            raise ValueError("memories are all alike: there is no direction to vary in. Store different ones.")
        shrunk, shrinkage = shrink_covariance(spread, w)
        inner = np.zeros((d, d))
        for members, near_rows in zip(self.members, self.kernel_rows, strict=True):
            local = self._within(members, near_rows, neighbors, spread[members])
            self.local.append(local)
            share = self.kernel_weights[near_rows]
            inner += np.einsum("k,kij->ij", share, local) if len(local) > 1 else w[members].sum() * local[0]
        near = 0 < neighbors < len(at)
        self.pooled = (1 - shrinkage) * inner + shrinkage * np.trace(inner) / d * np.eye(d) if near else shrunk

    def _within(self, members: Array, at: Array, neighbors: int, spread: Array) -> Array:
        """Covariances near the memories `at` of a class, (k, d, d) or (1, d, d); sets their centers."""
        if not 0 < neighbors < len(at):
            w = self.weights[members] / self.weights[members].sum()
            self.centers[at] = w @ self.rows[members]
            return shrink_covariance(spread, w)[0][None]
        rows, w = self.rows[at], self.kernel_weights[at] / self.kernel_weights[at].sum()
        local = np.empty((len(at), rows.shape[1], rows.shape[1]))
        for k, j in enumerate(k_nearest(rows, neighbors)):
            share = w[j] / w[j].sum()
            center = share @ rows[j]
            gaps = rows[j] - center
            self.centers[at[k]], local[k] = center, (share[:, None] * gaps).T @ gaps
        return local

    def kernels(self, width: KernelParams) -> list[FittedKernels]:
        """The kernels of each class."""
        least = FLOOR * max(float(self.variance.mean()), 1e-12)
        floor, fitted = least * np.eye(self.rows.shape[1]), []
        for members, at, local in zip(self.members, self.kernel_rows, self.local, strict=True):
            few = len(members) < MIN_ROWS and len(self.members) > 1
            of_rows = self.weights[members] / self.weights[members].sum()
            w = self.kernel_weights[at] / self.kernel_weights[at].sum()
            b = 1.0 if few else width.pooled
            mixed = (1 - b) * local + b * self.pooled + floor if b < 1 else (self.pooled + floor)[None]
            roots = np.linalg.cholesky(width.noise * mixed)
            inner = np.square(roots).sum(2)
            inner = w @ inner if len(inner) > 1 else inner[0]
            means = self.centers[at] + math.sqrt(1 - width.noise) * (self.rows[at] - self.centers[at])
            mean = of_rows @ self.rows[members]
            means = means - w @ means
            wanted = self.variance if few else of_rows @ np.square(self.rows[members] - mean)
            scale = np.sqrt((wanted + least) / (inner + w @ np.square(means)))
            fitted.append(FittedKernels(mean + means * scale, scale[:, None] * roots, np.log(w)))
        return fitted


def mixture_log_density(x: Array, means: Array, roots: Array, log_weights: Array) -> Array:
    """log Σ_k w_k N(x; m_k, L_k L_kᵀ): (n, d) -> (n,)."""
    return np.logaddexp.reduce(log_kernels(x, means, roots) + log_weights, axis=1)


def log_kernels(x: Array, means: Array, roots: Array) -> Array:
    """log N(x; m_k, L_k L_kᵀ) of every row and kernel: (n, d) -> (n, K)."""
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dtrtrs  # `solve_triangular` takes some ten times as long for a small matrix

    constant = x.shape[1] / 2 * math.log(2 * math.pi)
    volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
    if len(roots) == 1:
        a, b = (solve_triangular(roots[0], rows.T, lower=True).T for rows in (x, means))
        squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return -np.maximum(squares, 0) / 2 - volumes - constant
    out = np.empty((len(x), len(means)))
    for k, (mean, root) in enumerate(zip(means, roots, strict=True)):
        white, _ = dtrtrs(root, (x - mean).T, lower=1)
        out[:, k] = np.einsum("dn,dn->n", white, white)
    return -out / 2 - volumes - constant


def folds_of(classes: Array) -> list[Array]:
    """Held-out rows of each fold. Each class is spread evenly over the folds; a class of one row is never held out."""
    order = np.random.default_rng(0).permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    order = order[np.bincount(classes)[classes[order]] > 1]
    return [part for i in range(FOLDS) if len(part := np.sort(order[i::FOLDS]))]


class Folds:
    """Folds of memories (K, d) with classes (K,), or None. Each is held out in turn, to score parameters."""

    def __init__(self, rows: Array, classes: Array | None = None) -> None:
        self.rows, self.classes = rows, classes
        self._which = np.zeros(len(rows), dtype=np.intp) if classes is None else classes
        folds = folds_of(self._which)
        self.held_out = folds[: math.ceil(MAX_HELD_OUT * len(folds) / len(rows))]
        self.stored = [np.delete(np.arange(len(rows)), part) for part in self.held_out]
        self._moments: dict[int, list[Moments]] = {}

    def _moments_of(self, neighbors: int) -> list[Moments]:
        if neighbors not in self._moments:
            if len(self._moments) > 1:  # a search needs two numbers of neighbors at a time, and covariances are large
                self._moments.pop(next(iter(self._moments)))
            self._moments[neighbors] = [self._fit_moments(stored, neighbors) for stored in self.stored]
        return self._moments[neighbors]

    def _fit_moments(self, stored: Array, neighbors: int) -> Moments:
        classes = None if self.classes is None else self.classes[stored]
        return Moments(self.rows[stored], neighbors, np.full(len(stored), 1 / len(stored)), classes)

    def likelihood(self, width: KernelParams) -> float:
        """The log likelihood of held-out rows given their classes, summed over the folds."""
        total = 0.0
        for left, moments in zip(self.held_out, self._moments_of(width.neighbors), strict=True):
            try:
                kernels = moments.kernels(width)
            except np.linalg.LinAlgError:
                return -math.inf
            total += float(log_likelihoods(kernels, self.rows[left], self._which[left]).sum())
        return total


def log_likelihoods(fitted: Sequence[FittedKernels], rows: Array, classes: Array) -> Array:
    """log p(row | class) of rows (n, d): (n,)."""
    out = np.empty(len(rows))
    for c in np.unique(classes).tolist():
        members = np.flatnonzero(classes == c)
        out[members] = mixture_log_density(rows[members], *fitted[c])
    return out


@dataclass
class Likelihoods:
    """Likelihoods of parameters, each computed once; by the workers of joblib where `parallel_config` names some."""

    folds: Shared[Folds]
    progress: Progress
    cache: dict[KernelParams, float] = field(default_factory=dict)

    def __call__(self, width: KernelParams, ahead: Iterable[KernelParams] = ()) -> float:
        """The likelihood of these parameters. Idle workers compute those that may be needed next, `ahead`, in order."""
        if width not in self.cache:
            further = [params for params in ahead if params not in self.cache and params != width]
            tried = [width, *further][: effective_jobs(None)]
            with in_workers(partial(_likelihood, self.folds), tried, None) as likelihoods:
                self.cache.update(zip(tried, likelihoods, strict=True))
            self.progress.update(len(self.cache))
        return self.cache[width]

    def choose(self, widths: Sequence[KernelParams]) -> KernelParams:
        """The parameters with the largest likelihood."""
        return max(widths, key=lambda width: self(width, widths))


def _likelihood(folds: Shared[Folds], width: KernelParams) -> float:
    with limit_to_one_thread("scipy.linalg"):  # the same bits in every worker
        return folds.value.likelihood(width)


def choose_width(memories: ArrayLike, *, shape: str = "local") -> KernelParams:
    """The parameters of kernels around memories (K, d) that are best by held-out likelihood.

    Pooled covariances are tried with each share of noise; local ones by a coordinate ascent over a grid, which works
    as the likelihood is smooth. Where `joblib.parallel_config` names several workers, they compute the pooled
    candidates together, and during the ascent also the steps that follow if the present one fails. The choice does not
    depend on the number of workers.
    """
    rows = to_numpy(as_floats(memories, "memories")).astype(np.float64)
    check_choice("shape", shape, ("local", "pooled"))
    if len(rows) < 4:
        rule = "memories must be at least 4 for a width to be chosen by likelihood"
        raise ValueError(f"{rule}; got {len(rows)}. Pass width.")
    folds = Folds(rows)
    with Progress(N_EXPECTED_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(folds), progress)
        best = likelihood.choose([KernelParams(noise, 1.0, neighbors=0) for noise in NOISE])
        possible = tuple(m for m in NEIGHBORS if m < min(map(len, folds.stored)))
        if shape == "local" and possible:
            start = KernelParams(0.7, 0.5, min(20, possible[-1]))
            best = likelihood.choose([best, ascend(start, possible, likelihood)])
    if not math.isfinite(likelihood(best)):
        raise ValueError("memories are too much alike: no width has a finite likelihood. Drop duplicates.")
    return best


def choose_class_width(rows: Array, classes: Array) -> KernelParams:
    """The parameters that are best by the likelihood of held-out rows (K, d) given their classes (K,)."""
    largest = int(np.bincount(classes).max()) * (FOLDS - 1) // FOLDS
    with Progress(N_EXPECTED_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(Folds(rows, classes)), progress)
        best = ascend(KernelParams(0.7, 0.5, 0), (0,), likelihood)
        possible = tuple(m for m in NEIGHBORS if m < largest)
        if possible:
            start = KernelParams(0.7, 0.5, min(12, possible[-1]))
            best = likelihood.choose([best, ascend(start, possible, likelihood)])
    return best


def ascend(best: KernelParams, neighbors: tuple[int, ...], likelihood: Likelihoods) -> KernelParams:
    """Climb from `best`, which is on the grid, until no step along an axis of the grid raises the likelihood.

    The number of neighbors is one of `neighbors`.
    """
    axes: dict[str, tuple[float, ...]] = {"noise": NOISE, "pooled": POOLED, "neighbors": neighbors}
    directions = [(name, axis) for name, values in axes.items() for axis in (values[::-1], values)]
    before = None
    while before != best:
        before = best
        for i, (name, axis) in enumerate(directions):
            while (tried := _next(best, name, axis)) is not None:
                following = (_next(best, *direction) for direction in (*directions[i + 1 :], *directions[:i]))
                ahead = [best, *(params for params in following if params is not None)]
                if likelihood(tried, ahead) <= likelihood(best):
                    break
                best = tried
    return best


def _next(width: KernelParams, name: str, axis: tuple[float, ...]) -> KernelParams | None:
    """The parameters after these along an axis of the grid; None at its end."""
    after = axis[axis.index(getattr(width, name)) + 1 :]
    return width._replace(**{name: after[0]}) if after else None  # type: ignore[arg-type]  # a value of its own axis
