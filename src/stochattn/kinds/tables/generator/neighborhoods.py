"""Moments of neighbourhoods of memories, densities of the covariance kernels they make, and the choice of a width.

Moments come from training folds alone: a left-out memory is not scored by a covariance that it helped to make.

Covariances shrunk towards the identity: by likelihood where rows are many, by Ledoit and Wolf's rule elsewhere.
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
from ....core.neighbors import k_nearest
from ...stratified import stratified

FLOOR = 1e-6
"""Share of the mean variance that every direction has at least: constant columns stay nearly constant."""
SHRINKAGE = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the identity that likelihood chooses from."""
MIN_ROWS_PER_FEATURE = 5
"""Rows per feature from which on likelihood chooses: with fewer, one Gaussian says little about kernels."""


def shrunk_covariance(spread: Array, w: Array) -> tuple[Array, float]:
    """The covariance (1 − λ) S + λ tr(S)/d I of centred rows (k, d) that weigh w (k,), and its shrinkage λ.

    Ledoit and Wolf's λ has the least square error, and where columns nearly determine each other, it adds more noise
    across their ties than there is along them. Likelihood keeps these ties.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    n, d = spread.shape
    if n == 1:
        return np.zeros((d, d)), 0.0
    rows = spread * np.sqrt(n * w)[:, None]  # weighted rows as so many rows of unit weight
    covariance = rows.T @ rows / n
    if n >= MIN_ROWS_PER_FEATURE * d:
        shrinkage = likeliest_shrinkage(rows)
    else:
        shrinkage = float(ledoit_wolf_shrinkage(rows, assume_centered=True))
    return (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / d * np.eye(d), shrinkage


def likeliest_shrinkage(rows: Array) -> float:
    """The λ of SHRINKAGE under which centred rows (n, d), each left out in turn, are likeliest under one Gaussian.

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
NEIGHBOURS = (5, 8, 12, 20, 30, 50, 80, 120, 200, 400)
N_USUAL_STEPS = 25
"""Widths that a search usually tries, for its progress bar."""
MIN_ROWS = 8
"""Rows, below which no shape is learnt from them: a class of fewer has the covariance that is common to all classes."""
FOLDS, MAX_HELD_OUT = 5, 200
"""Folds that score a width, and the number of left-out memories beyond which further folds are not used."""
MAX_MEMORIES, MAX_LOCAL_NUMBERS = 10_000, 2**24
"""Rows that kernels lie around, and numbers in their covariances, at most: neighbours take time that grows with the
square of the rows (5 s for so many rows of twelve columns on one core), and the covariances 128 MiB for each copy."""


class Width(NamedTuple):
    """How wide kernels are: s the share of noise, b that of the pooled covariance, and neighbours, 0 for all."""

    noise: float
    pooled: float
    neighbours: int

    def checked(self) -> Width:
        """The width itself, or a ValueError."""
        whole = isinstance(self.neighbours, int | np.integer)
        if not (0 < self.noise <= 1 and 0 <= self.pooled <= 1 and self.neighbours >= 0 and whole):
            rule = "width must have noise above 0 and up to 1, pooled from 0 to 1 and neighbours of 0 (all) or more"
            raise ValueError(f"{rule}; got {tuple(self)}.")
        return self

    def __str__(self) -> str:
        among = f"its {self.neighbours} nearest rows" if self.neighbours else "all rows"
        mixed = f"a covariance that is {1 - self.pooled:.0%} their own and {self.pooled:.0%} the average of all rows"
        shape = {0.0: "their own covariance", 1.0: "the average covariance of all rows"}.get(self.pooled, mixed)
        shaped = f", with {shape}" if self.neighbours else ""
        return f"Gaussian noise around each stored row: {self.noise:.0%} of the variance among {among}{shaped}"

    def among(self, n: int, m: int) -> Width:
        """The same width among m rows, where that of n rows is known: as large a share of them are neighbours."""
        return self._replace(neighbours=max(round(self.neighbours * m / n), 1)) if self.neighbours else self


class KernelCenters(NamedTuple):
    """The rows that kernels lie around: indices (m,) in rising order, and their weights (m,)."""

    rows: Array
    weights: Array


def n_memories(K: int, d: int, neighbours: int) -> int:
    """How many of K rows (K, d) kernels lie around: fewer where each kernel has a covariance of its own."""
    most = min(MAX_MEMORIES, max(MAX_LOCAL_NUMBERS // d**2, MIN_ROWS)) if neighbours else MAX_MEMORIES
    return min(K, most)


def choose_memories(w: Array, n: int, classes: Array | None = None) -> KernelCenters:
    """n of the rows that weigh w (K,), or all if there are no more: chosen by weight, always the same ones.

    Each of the classes (K,) has its share of them, and at least MIN_ROWS or all of its rows. A row that is chosen
    several times, as a heavy one may be, counts as often.
    """
    if n >= len(w):
        return KernelCenters(np.arange(len(w)), w)
    rng, which = np.random.default_rng(0), np.zeros(len(w), dtype=np.intp) if classes is None else classes
    rows, weights = np.arange(len(w)), np.zeros(len(w))
    for c in range(int(which.max()) + 1):
        members = np.flatnonzero(which == c)
        total = w[members].sum()
        size = max(round(n * total / w.sum()), MIN_ROWS)
        if size < len(members):
            picks = stratified(np.log(w[members] / total), size, rng)
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
    """Moments of memories (K, d) that weigh w (K,), and of their neighbourhoods within their classes (K,), 0 to C − 1.

    Neighbourhoods are the `neighbours` nearest memories of the class, 0 for all of it; None for one class of all.
    Where kernels lie around `memories` only, neighbourhoods are of these, and all rows give means, variances and the
    covariances of whole classes.
    members: the rows of each class, and `kernel_rows` its memories; centres (K, d) of neighbourhoods, and for each
    class their covariances (k, d, d), or (1, d, d) where the class is one neighbourhood; pooled (d, d), the mean of all
    these, shrunk; variance (d,) within classes
    """

    def __init__(
        self,
        rows: Array,
        neighbours: int,
        w: Array,
        classes: Array | None = None,
        memories: KernelCenters | None = None,
    ) -> None:
        K, d = rows.shape
        which = np.zeros(K, dtype=np.intp) if classes is None else classes
        at, weights = memories or KernelCenters(np.arange(K), w)
        self.members = [np.flatnonzero(which == c) for c in range(int(which.max()) + 1)]
        self.kernel_rows = [at[which[at] == c] for c in range(len(self.members))]
        self.rows, self.weights, self.kernel_weights = rows, w, np.zeros(K)
        self.kernel_weights[at] = weights
        self.centres, self.local, spread = np.empty((K, d)), [], np.empty((K, d))
        for own in self.members:
            spread[own] = rows[own] - w[own] / w[own].sum() @ rows[own]
        self.variance = w @ np.square(spread)
        if classes is None and self.variance.mean() <= 0:
            raise ValueError("memories are all alike: there is no direction to vary in. Store different ones.")
        shrunk, shrinkage = shrunk_covariance(spread, w)
        inner = np.zeros((d, d))
        for own, near_rows in zip(self.members, self.kernel_rows, strict=True):
            local = self._within(own, near_rows, neighbours, spread[own])
            self.local.append(local)
            share = self.kernel_weights[near_rows]
            inner += np.einsum("k,kij->ij", share, local) if len(local) > 1 else w[own].sum() * local[0]
        near = 0 < neighbours < len(at)
        self.pooled = (1 - shrinkage) * inner + shrinkage * np.trace(inner) / d * np.eye(d) if near else shrunk

    def _within(self, members: Array, at: Array, neighbours: int, spread: Array) -> Array:
        """Covariances near the memories `at` of a class, (k, d, d) or (1, d, d); sets their centres."""
        if not 0 < neighbours < len(at):
            w = self.weights[members] / self.weights[members].sum()
            self.centres[at] = w @ self.rows[members]
            return shrunk_covariance(spread, w)[0][None]
        rows, w = self.rows[at], self.kernel_weights[at] / self.kernel_weights[at].sum()
        local = np.empty((len(at), rows.shape[1], rows.shape[1]))
        for k, j in enumerate(k_nearest(rows, neighbours)):
            share = w[j] / w[j].sum()
            centre = share @ rows[j]
            gaps = rows[j] - centre
            self.centres[at[k]], local[k] = centre, (share[:, None] * gaps).T @ gaps
        return local

    def kernels(self, width: Width) -> list[FittedKernels]:
        """The kernels of each class."""
        least = FLOOR * max(float(self.variance.mean()), 1e-12)
        floor, found = least * np.eye(self.rows.shape[1]), []
        for own, at, local in zip(self.members, self.kernel_rows, self.local, strict=True):
            few = len(own) < MIN_ROWS and len(self.members) > 1
            of_rows = self.weights[own] / self.weights[own].sum()
            w = self.kernel_weights[at] / self.kernel_weights[at].sum()
            b = 1.0 if few else width.pooled
            mixed = (1 - b) * local + b * self.pooled + floor if b < 1 else (self.pooled + floor)[None]
            roots = np.linalg.cholesky(width.noise * mixed)
            inner = np.square(roots).sum(2)
            inner = w @ inner if len(inner) > 1 else inner[0]
            means = self.centres[at] + math.sqrt(1 - width.noise) * (self.rows[at] - self.centres[at])
            mean = of_rows @ self.rows[own]
            means = means - w @ means
            wanted = self.variance if few else of_rows @ np.square(self.rows[own] - mean)
            scale = np.sqrt((wanted + least) / (inner + w @ np.square(means)))
            found.append(FittedKernels(mean + means * scale, scale[:, None] * roots, np.log(w)))
        return found


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
    """Left-out rows of each fold, every class spread evenly over the folds; a class of one row is never left out."""
    order = np.random.default_rng(0).permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    order = order[np.bincount(classes)[classes[order]] > 1]
    return [part for i in range(FOLDS) if len(part := np.sort(order[i::FOLDS]))]


class Folds:
    """Folds of memories (K, d) of classes (K,), or None, each left out in turn, by which widths are scored."""

    def __init__(self, rows: Array, classes: Array | None = None) -> None:
        self.rows, self.classes = rows, classes
        self._which = np.zeros(len(rows), dtype=np.intp) if classes is None else classes
        folds = folds_of(self._which)
        self.left_out = folds[: math.ceil(MAX_HELD_OUT * len(folds) / len(rows))]
        self.stored = [np.delete(np.arange(len(rows)), part) for part in self.left_out]
        self._moments: dict[int, list[Moments]] = {}

    def _moments_of(self, neighbours: int) -> list[Moments]:
        if neighbours not in self._moments:
            if len(self._moments) > 1:  # a search moves from one number to the next, and the covariances are large
                self._moments.pop(next(iter(self._moments)))
            self._moments[neighbours] = [
                Moments(
                    self.rows[s],
                    neighbours,
                    np.full(len(s), 1 / len(s)),
                    None if self.classes is None else self.classes[s],
                )
                for s in self.stored
            ]
        return self._moments[neighbours]

    def likelihood(self, width: Width) -> float:
        """The log likelihood of left-out rows given their classes, summed over the folds."""
        total = 0.0
        for left, moments in zip(self.left_out, self._moments_of(width.neighbours), strict=True):
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
        own = np.flatnonzero(classes == c)
        out[own] = mixture_log_density(rows[own], *fitted[c])
    return out


@dataclass
class Likelihoods:
    """Likelihoods of widths, each computed once; by the workers of joblib where `parallel_config` names some."""

    folds: Shared[Folds]
    progress: Progress
    known: dict[Width, float] = field(default_factory=dict)

    def __call__(self, width: Width, ahead: Iterable[Width] = ()) -> float:
        """That of a width. Workers who have nothing to do compute those of the widths `ahead`, the first of them."""
        if width not in self.known:
            further = [other for other in ahead if other not in self.known and other != width]
            tried = [width, *further][: effective_jobs(None)]
            with in_workers(partial(_likelihood, self.folds), tried, None) as found:
                self.known.update(zip(tried, found, strict=True))
            self.progress.update(len(self.known))
        return self.known[width]

    def likeliest(self, widths: Sequence[Width]) -> Width:
        """The likeliest of these."""
        return max(widths, key=lambda width: self(width, widths))


def _likelihood(folds: Shared[Folds], width: Width) -> float:
    with limit_to_one_thread("scipy.linalg"):  # the same bits in every worker
        return folds.value.likelihood(width)


def choose_width(memories: ArrayLike, *, shape: str = "local") -> Width:
    """The width under which left-out folds of memories (K, d) are likeliest.

    The best of pooled widths, and of a coordinate ascent over a grid of local ones: the likelihood is smooth. The steps
    of the ascent depend on each other: where `joblib.parallel_config` names several workers, they compute the pooled
    widths together, and of the local ones also those that are next if a step fails. The width does not depend on them.
    """
    rows = to_numpy(as_floats(memories, "memories")).astype(np.float64)
    check_choice("shape", shape, ("local", "pooled"))
    if len(rows) < 4:
        rule = "memories must be at least 4 for a width to be chosen by likelihood"
        raise ValueError(f"{rule}; got {len(rows)}. Pass width.")
    folds = Folds(rows)
    with Progress(N_USUAL_STEPS, "choosing a width") as progress:
        likelihood = Likelihoods(Shared(folds), progress)
        best = likelihood.likeliest([Width(noise, 1.0, neighbours=0) for noise in NOISE])
        possible = tuple(m for m in NEIGHBOURS if m < min(map(len, folds.stored)))
        if shape == "local" and possible:
            start = Width(0.7, 0.5, min(20, possible[-1]))
            best = likelihood.likeliest([best, ascend(start, possible, likelihood)])
    if not math.isfinite(likelihood(best)):
        raise ValueError("memories are too much alike: no width has a finite likelihood. Drop duplicates.")
    return best


def ascend(best: Width, neighbours: tuple[int, ...], likelihood: Likelihoods) -> Width:
    """A width, with one of these numbers of neighbours, that no step along an axis of the grid makes likelier.

    The search begins with `best`, which is on the grid.
    """
    axes: dict[str, tuple[float, ...]] = {"noise": NOISE, "pooled": POOLED, "neighbours": neighbours}
    directions = [(name, axis) for name, values in axes.items() for axis in (values[::-1], values)]
    before = None
    while before != best:
        before = best
        for i, (name, axis) in enumerate(directions):
            while (tried := _next(best, name, axis)) is not None:
                others = (_next(best, *one) for one in (*directions[i + 1 :], *directions[:i]))
                ahead = [best, *(other for other in others if other is not None)]
                if likelihood(tried, ahead) <= likelihood(best):
                    break
                best = tried
    return best


def _next(width: Width, name: str, axis: tuple[float, ...]) -> Width | None:
    """The width after this one along an axis of the grid; None at its end."""
    after = axis[axis.index(getattr(width, name)) + 1 :]
    return width._replace(**{name: after[0]}) if after else None  # type: ignore[arg-type]  # a value of its own axis
