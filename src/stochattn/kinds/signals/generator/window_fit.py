"""Fits kernels around stored signals, and chooses their setting by the likelihood of left-out signals.

Shifts of signals in time against each other, and the same signals aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...._backend.arrays import Array
from .windows import KernelGroup, TimeWindowGenerator, WindowSetting, log_kernel_densities, power_windows

ROUNDS, MAX_SHIFTS = 5, 11
"""Times that signals are aligned with the mean of the aligned ones; different shifts, at most."""


def possible_shifts(largest: int) -> Array:
    """Shifts from -largest to largest, evenly spaced, with zero in the middle: (at most MAX_SHIFTS,)."""
    step = max(-(-2 * largest // (MAX_SHIFTS - 1)), 1)
    right = np.arange(0, largest + 1, step)
    return np.concatenate([-right[:0:-1], right])


def shifted(signals: Array, by: int, margin: int) -> Array:
    """x(t + by) of signals (K, T, C), for t from -margin to T - 1 + margin, with the ends continued."""
    T = signals.shape[1]
    return np.asarray(signals[:, np.clip(np.arange(-margin, T + margin) + by, 0, T - 1)])


def shifts_of(signals: Array, largest: int) -> Array:
    """The shift (K,) of each signal (K, T, C) at which signals are most alike; the middle one of them is zero.

    Channels are compared in units of their standard deviation, and points near the ends are left out.
    """
    K, T, _ = signals.shape
    possible = possible_shifts(largest)
    scale = signals.std((0, 1))
    moved = np.stack([shifted(signals, int(by), 0)[:, largest : T - largest] for by in possible])
    scale[scale == 0] = 1.0
    moved = moved / scale  # (S, K, T', C)
    which = np.full(K, len(possible) // 2)
    for _ in range(ROUNDS):
        template = moved[which, np.arange(K)].mean(0)
        found = np.square(moved - template).sum((2, 3)).argmin(0)
        middle = round(float(np.median(found))) - len(possible) // 2
        found = np.clip(found - middle, 0, len(possible) - 1)
        if (found == which).all():
            break
        which = found
    return np.asarray(possible[which])


WIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
WINDOW_SHARES, SLIDE_SHARES, SHIFT_SHARE = (0, 2, 4, 8, 16, 32), (32, 8), 10
"""What is tried, over the length of a signal: the inverse of the distance of windows, of slides and of shifts."""
ROUGHNESSES, POOLED = (0.03, 0.3, 0.9), (0.0, 0.5, 1.0)
DEFAULT = WindowSetting(width=0.5, spacing=0, pooled=1.0, roughness=0.1, shift=0, slide=0)
MIN_SIGNALS = 6
"""Signals of the largest class from which on a setting is chosen; for fewer it is the default."""
N_SLIDES, MAX_SLID = 7, 2**21
"""Shifts at which a signal counts for the noise, and values of all signals beyond which it counts at its own time."""
N_FOLDS, MAX_SCORED_CLASSES, MAX_SCORED, MAX_SCORED_FEATURES, MAX_SCORED_CHANNELS = 4, 3, 200, 240, 8
"""Parts of a class that are left out in turn; the largest classes, signals of each, features and channels that count
for the choice, which bound its time."""
MIN_NUGGET = 1e-8
"""White noise that keeps covariances positive definite, over the variance."""

Choices = dict[str, tuple[float, ...]]


def fit_time_windows(
    signals: Array, weights: Array, classes: Array, asked: dict[str, float | None]
) -> TimeWindowGenerator:
    """The generator of signals (K, T, C) of classes (K,), 0 and up, that count `weights` (K,) times.

    asked: parts of the setting by name; those that are None are chosen
    """
    kept = np.flatnonzero(weights > 0)
    stored, own, shares = signals[kept].astype(np.float64), classes[kept], weights[kept] / weights[kept].sum()
    given = {name: float(value) for name, value in asked.items() if value is not None}
    setting = choose_setting(stored, own, given)
    groups, log_weights = kernel_groups(stored, shares, own, setting)
    shape, searched = (stored.shape[1], stored.shape[2]), len(given) < len(WindowSetting._fields)
    return TimeWindowGenerator(tuple(groups), log_weights, kept, shape, setting, searched)


def kernel_groups(
    signals: Array, shares: Array, classes: Array, setting: WindowSetting
) -> tuple[list[KernelGroup], Array]:
    """The kernels of signals (K, T, C) that count shares (K,), and their log weights (G, K)."""
    largest, (K, T, C) = setting.shift, signals.shape
    parts = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    shifts, aligned = np.zeros(K, dtype=np.intp), np.empty((K, T + 2 * largest, C))
    centers, residuals = [], np.empty((K, (T + 2 * largest) * C))
    for own in parts:
        shifts[own] = shifts_of(signals[own], largest) if largest else 0
        for k in own:
            aligned[k] = shifted(signals[k : k + 1], int(shifts[k]), largest)[0]
        flat = aligned[own].reshape(len(own), -1)
        centers.append(np.average(flat, axis=0, weights=shares[own]))
        residuals[own] = flat - centers[-1]
    nuggets = _nuggets(residuals.reshape(aligned.shape), shares, setting.roughness)
    smooth = _without_noise(residuals.reshape(aligned.shape), setting.roughness)
    slid, rows = _slid(np.sqrt(shares)[:, None, None] * smooth, setting.slide)
    groups, log_weights, flat = [], [], aligned.reshape(K, -1)
    everything = _with_variance(slid, smooth, shares)
    for own, center in zip(parts, centers, strict=True):
        mine = np.isin(rows, own)
        within = _with_variance(slid[mine], smooth[own], shares[own] / shares[own].sum())
        pooled = setting.pooled if len(own) > 2 and within.any() else 1.0
        one = len(parts) == 1
        ensemble = within if one or not pooled else everything
        if not one and 0 < pooled < 1:
            ensemble = np.concatenate([np.sqrt(1 - pooled) * within, np.sqrt(pooled) * everything])
        for shift in np.unique(shifts[own]):
            span = slice((largest - shift) * C, (largest - shift + T) * C)
            groups.append(KernelGroup(own, flat[own, span], center[span], ensemble[:, span], nuggets[span]))
            found = np.full(K, -np.inf)
            found[own] = np.log(shares[own]) + np.log(shares[own][shifts[own] == shift].sum() / shares[own].sum())
            log_weights.append(found)
    return groups, np.array(log_weights)


def _nuggets(residuals: Array, shares: Array, roughness: float) -> Array:
    """Variance of white noise at each feature of differences (K, T, C) from their centers: (T·C,).

    Second differences of white noise of variance 1 have the variance 6; those of a smooth signal are small.
    """
    T = residuals.shape[1]
    variance = np.einsum("k,ktc->c", shares, np.square(residuals)) / T
    rough = np.zeros_like(variance)
    if T > 2:
        rough = np.einsum("k,ktc->c", shares, np.square(np.diff(residuals, 2, axis=1))) / (6 * (T - 2))
    least = MIN_NUGGET * np.where(variance > 0, variance, max(float(variance.mean()), np.finfo(float).tiny))
    return np.tile(roughness * rough + least, T)


def _without_noise(residuals: Array, share: float) -> Array:
    """Differences (K, T, C) without this share of their white noise, which nuggets add again.

    x(t) + a (x(t - 1) - 2 x(t) + x(t + 1)) has 1 - 20a/3 + 35a²/3 of the mean squared second difference of white noise,
    and a smooth signal does not change.
    """
    a = (20 - np.sqrt(max(400 - 420 * share, 0.0))) / 70
    around = np.pad(residuals, ((0, 0), (1, 1), (0, 0)), mode="edge")
    return np.asarray(residuals + a * np.diff(around, 2, axis=1))


def _slid(residuals: Array, largest: int) -> tuple[Array, Array]:
    """Differences (K, T, C) at several shifts: (M, T, C), and the signal of each of them (M,)."""
    if not largest:
        return residuals, np.arange(len(residuals))
    shifts = np.unique(np.linspace(-largest, largest, N_SLIDES).round().astype(int))
    last = residuals.shape[1] - 1
    times = [last - np.abs(last - np.abs(np.arange(last + 1) + by)) for by in shifts]  # reflected at the ends
    moved = np.concatenate([residuals[:, at] for at in times])
    return moved, np.tile(np.arange(len(residuals)), len(shifts))


def _with_variance(rows: Array, residuals: Array, shares: Array) -> Array:
    """Rows (M, T, C), scaled such that their squares sum to the variance of differences (K, T, C): (M, T·C)."""
    wanted, found = np.einsum("k,ktc->tc", shares, np.square(residuals)), np.square(rows).sum(0)
    scale = np.sqrt(np.divide(wanted, found, out=np.zeros_like(found), where=found > 0))
    return np.asarray((rows * scale).reshape(len(rows), -1))


def choose_setting(signals: Array, classes: Array, given: dict[str, float]) -> WindowSetting:
    """The setting under which left-out signals (K, T, C) are likeliest, of those with the given parts.

    Windows and roughness are chosen together, then the share of pooled noise, windows and slide, roughness again, and
    whether signals are aligned. The width is chosen anew in each.
    """
    T, labels = signals.shape[1], np.unique(classes, return_counts=True)
    start = DEFAULT._replace(pooled=0.0).with_values(given)
    if labels[1].max() < MIN_SIGNALS or len(given) == len(start):
        return DEFAULT.with_values(given)
    parts = dict.fromkeys(T // share if share else 0 for share in WINDOW_SHARES if not share or T // share >= 2)
    several = len(labels[0]) > 1
    slides = tuple(float(T // share) for share in SLIDE_SHARES if share <= T and signals.size <= MAX_SLID)
    tried: list[Choices] = [
        {"spacing": tuple(map(float, parts)), "roughness": ROUGHNESSES},
        {"pooled": POOLED if several else (0.0,)},
        {"slide": slides, "spacing": tuple(map(float, parts))},
        {"roughness": ROUGHNESSES},
        {"shift": (0.0, float(T // SHIFT_SHARE))},
    ]
    scored = list(_folds(signals, classes))
    best, best_score = start, -np.inf
    for choices in tried:
        for setting in _settings(best, {name: found for name, found in choices.items() if name not in given}):
            widths = (start.width,) if "width" in given else WIDTHS
            scores = sum(fold(setting, widths) for fold in scored)
            if np.max(scores) > best_score:
                best_score = float(np.max(scores))
                best = setting._replace(width=widths[int(np.argmax(scores))])
    return best


def _settings(start: WindowSetting, choices: Choices) -> Iterator[WindowSetting]:
    """All settings with one of the values of each name, and the others as at the start."""
    found: list[dict[str, float]] = [{}]
    for name, values in choices.items():
        found = [{**one, name: value} for one in found for value in values]
    return (start.with_values(one) for one in found)


Fold = Callable[[WindowSetting, Sequence[float]], Array]


def _folds(signals: Array, classes: Array) -> Iterator[Fold]:
    """Functions of a setting and widths (W,): log densities of signals that are left out, summed, for each width (W,).

    They look at some of the times and channels, evenly spaced.
    """
    _, T, C = signals.shape
    channels = np.unique(np.linspace(0, C - 1, min(C, MAX_SCORED_CHANNELS)).round().astype(int))
    times = np.unique(np.linspace(0, T - 1, min(T, MAX_SCORED_FEATURES // len(channels))).round().astype(int))
    points = (times[:, None] * C + channels).ravel()
    labels, counts = np.unique(classes, return_counts=True)
    largest = labels[np.argsort(-counts, kind="stable")[:MAX_SCORED_CLASSES]]
    rng, parts = np.random.default_rng(0), []
    for label in labels:
        own = np.flatnonzero(classes == label)
        parts.append(own[np.sort(rng.permutation(len(own))[:MAX_SCORED])])
    for f in range(N_FOLDS):
        left_out = np.concatenate([own[f::N_FOLDS] if len(own) >= MIN_SIGNALS else own[:0] for own in parts])
        used = np.setdiff1d(np.concatenate(parts), left_out)
        judged = left_out[np.isin(classes[left_out], largest)]
        if len(judged):
            yield _scorer(signals, classes, used, judged, points)


def _scorer(signals: Array, classes: Array, used: Array, judged: Array, points: Array) -> Fold:
    def score(setting: WindowSetting, widths: Sequence[float]) -> Array:
        shares = np.full(len(used), 1 / len(used))
        groups, log_weights = kernel_groups(signals[used], shares, classes[used], setting)
        _, T, C = signals.shape
        windows = np.repeat(power_windows(T, setting.spacing), C, axis=1)[:, points]
        total = np.zeros(len(widths))
        for label in np.unique(classes[judged]):
            values = signals[judged[classes[judged] == label]].reshape(-1, T * C)[:, points]
            found = np.full((len(widths), len(values)), -np.inf)
            for group, weight in zip(groups, log_weights, strict=True):
                if classes[used][group.members[0]] == label:
                    kernels = log_kernel_densities(group.at(points), windows, values, tuple(widths))
                    for w, densities in enumerate(kernels):
                        joint = np.logaddexp.reduce(weight[group.members][:, None] + densities, axis=0)
                        found[w] = np.logaddexp(found[w], joint)
            total += found.sum(1)
        return total

    return score
