"""Fits kernels around stored signals, aligns signals, and chooses the setting by the likelihood of left-out signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...._backend.arrays import Array
from .windows import KernelGroup, TimeWindowGenerator, WindowSetting, log_kernel_densities, power_windows

ROUNDS, MAX_SHIFTS = 5, 11  # of alignment with the mean of the aligned signals; largest number of shifts


def list_shifts(largest: int) -> Array:
    """Shifts from -largest to largest, evenly spaced, with zero in the middle: (at most MAX_SHIFTS,)."""
    step = max(-(-2 * largest // (MAX_SHIFTS - 1)), 1)
    right = np.arange(0, largest + 1, step)
    return np.concatenate([-right[:0:-1], right])


def shift_signals(signals: Array, by: int, margin: int) -> Array:
    """x(t + by) of signals (K, T, C) for t from -margin to T - 1 + margin, with constant ends."""
    T = signals.shape[1]
    return np.asarray(signals[:, np.clip(np.arange(-margin, T + margin) + by, 0, T - 1)])


def find_shifts(signals: Array, largest: int) -> Array:
    """The shift (K,) of each signal (K, T, C) at which signals are most alike; the median shift is zero.

    Channels are compared in units of their standard deviation, and points near the ends are left out.
    """
    K, T, _ = signals.shape
    possible, scale = list_shifts(largest), signals.std((0, 1))
    scale[scale == 0] = 1.0
    candidates = np.stack([shift_signals(signals, int(by), 0)[:, largest : T - largest] for by in possible])
    candidates = candidates / scale  # (S, K, T', C)
    chosen = np.full(K, len(possible) // 2)
    for _ in range(ROUNDS):
        template = candidates[chosen, np.arange(K)].mean(0)
        best = np.square(candidates - template).sum((2, 3)).argmin(0)
        middle = round(float(np.median(best))) - len(possible) // 2
        best = np.clip(best - middle, 0, len(possible) - 1)
        if (best == chosen).all():
            break
        chosen = best
    return np.asarray(possible[chosen])


WIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
WINDOW_SHARES, SLIDE_SHARES, SHIFT_SHARE = (2, 4, 8, 16, 32), (32, 8), 10
"""Values that are tried: the length of a signal over the distance of windows, over slides and over shifts."""
ROUGHNESSES, POOLED = (0.03, 0.3, 0.9), (0.0, 0.5, 1.0)
DEFAULT = WindowSetting(width=0.5, spacing=0, pooled=1.0, roughness=0.1, shift=0, slide=0)
MIN_SIGNALS = 6  # least size of the largest class for a choice of the setting; with fewer signals it is the default
N_SLIDES, MAX_SLID = 7, 2**21  # slides of a signal in the noise; values of data that are not tried with slides
N_FOLDS, MAX_SCORED_CLASSES, MAX_SCORED, MAX_SCORED_FEATURES, MAX_SCORED_CHANNELS = 4, 3, 200, 240, 8
"""Number of folds; to bound the time of the choice, the numbers of classes (the largest), of signals of each, of
features and of channels that are scored."""
MIN_NUGGET = 1e-8  # white noise that keeps covariances positive definite, over the variance


def fit_time_windows(
    signals: Array, weights: Array, classes: Array, options: Mapping[str, float | None]
) -> TimeWindowGenerator:
    """The generator of signals (K, T, C) of classes (K,), 0 and up, that count `weights` (K,) times.

    options: values of the setting by name; those that are None or missing are chosen
    """
    kept = np.flatnonzero(weights > 0)
    stored, labels, shares = signals[kept].astype(np.float64), classes[kept], weights[kept] / weights[kept].sum()
    values: dict[str, Any] = {name: float(value) for name, value in options.items() if value is not None}
    values |= {name: round(values[name]) for name in ("spacing", "shift", "slide") if name in values}
    setting = choose_setting(stored, labels, values)
    groups, log_weights = kernel_groups(stored, shares, labels, setting)
    searched = len(values) < len(WindowSetting._fields)
    return TimeWindowGenerator(tuple(groups), log_weights, kept, stored.shape[1:], setting, searched)


def kernel_groups(
    signals: Array, shares: Array, classes: Array, setting: WindowSetting
) -> tuple[list[KernelGroup], Array]:
    """The kernels of signals (K, T, C) that count shares (K,), and their log weights (G, K)."""
    largest, (K, T, C) = setting.shift, signals.shape
    parts = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    shifts, aligned = np.zeros(K, dtype=np.intp), np.empty((K, T + 2 * largest, C))
    centers, residuals = [], np.empty((K, (T + 2 * largest) * C))
    for members in parts:
        shifts[members] = find_shifts(signals[members], largest) if largest else 0
        for k in members:
            aligned[k] = shift_signals(signals[k : k + 1], int(shifts[k]), largest)[0]
        flat = aligned[members].reshape(len(members), -1)
        centers.append(np.average(flat, axis=0, weights=shares[members]))
        residuals[members] = flat - centers[-1]
    nuggets = _nuggets(residuals.reshape(aligned.shape), shares, setting.roughness)
    smooth = _remove_noise(residuals.reshape(aligned.shape), setting.roughness)
    moved, rows = _slide(np.sqrt(shares)[:, None, None] * smooth, setting.slide)
    groups, log_weights, flat = [], [], aligned.reshape(K, -1)
    by_all = _scale_to_variance(moved, smooth, shares)
    for members, center in zip(parts, centers, strict=True):
        is_member = np.isin(rows, members)
        by_class = _scale_to_variance(moved[is_member], smooth[members], shares[members] / shares[members].sum())
        pooled = setting.pooled if len(members) > 2 and by_class.any() else 1.0
        is_single = len(parts) == 1
        ensemble = by_class if is_single or not pooled else by_all
        if not is_single and 0 < pooled < 1:
            ensemble = np.concatenate([np.sqrt(1 - pooled) * by_class, np.sqrt(pooled) * by_all])
        for shift in np.unique(shifts[members]):
            span = slice((largest - shift) * C, (largest - shift + T) * C)
            groups.append(KernelGroup(members, flat[members, span], center[span], ensemble[:, span], nuggets[span]))
            log_weight, share = np.full(K, -np.inf), shares[members]
            log_weight[members] = np.log(share) + np.log(share[shifts[members] == shift].sum() / share.sum())
            log_weights.append(log_weight)
    return groups, np.array(log_weights)


def _nuggets(residuals: Array, shares: Array, roughness: float) -> Array:
    """Variance of white noise at each feature of differences (K, T, C) from their centers: (T·C,).

    Second differences of white noise of variance 1 have the variance 6; those of a smooth signal are small.
    """
    T = residuals.shape[1]
    variance = np.einsum("k,ktc->c", shares, np.square(residuals)) / T
    rough = np.einsum("k,ktc->c", shares, np.square(np.diff(residuals, 2, axis=1))) / (6 * (T - 2))
    least = MIN_NUGGET * np.where(variance > 0, variance, max(float(variance.mean()), np.finfo(float).tiny))
    return np.tile(roughness * rough + least, T)


def _remove_noise(residuals: Array, share: float) -> Array:
    """Differences (K, T, C) without this share of their white noise, which nuggets replace.

    x(t) + a (x(t - 1) - 2 x(t) + x(t + 1)) has 1 - 20a/3 + 35a²/3 of the mean squared second difference of white noise,
    and hardly changes a smooth signal.
    """
    a = (20 - np.sqrt(max(400 - 420 * share, 0.0))) / 70
    around = np.pad(residuals, ((0, 0), (1, 1), (0, 0)), mode="edge")
    return np.asarray(residuals + a * np.diff(around, 2, axis=1))


def _slide(residuals: Array, largest: int) -> tuple[Array, Array]:
    """Differences (K, T, C) at several slides: (M, T, C), and the index of the signal of each (M,)."""
    if not largest:
        return residuals, np.arange(len(residuals))
    shifts = np.unique(np.linspace(-largest, largest, N_SLIDES).round().astype(int))
    last = residuals.shape[1] - 1
    times = [last - np.abs(last - np.abs(np.arange(last + 1) + by)) for by in shifts]  # reflected at the ends
    moved = np.concatenate([residuals[:, at] for at in times])
    return moved, np.tile(np.arange(len(residuals)), len(shifts))


def _scale_to_variance(rows: Array, residuals: Array, shares: Array) -> Array:
    """Rows (M, T, C), scaled so that their squares sum to the variance of differences (K, T, C): (M, T·C)."""
    variance, squares = np.einsum("k,ktc->tc", shares, np.square(residuals)), np.square(rows).sum(0)
    scale = np.sqrt(np.divide(variance, squares, out=np.zeros_like(squares), where=squares > 0))
    return np.asarray((rows * scale).reshape(len(rows), -1))


def choose_setting(signals: Array, classes: Array, values: dict[str, Any]) -> WindowSetting:
    """The setting that is best by the likelihood of left-out signals (K, T, C), given some of its values.

    Windows and roughness are chosen together, then the share of pooled noise, windows and slide, roughness again, and
    whether signals are aligned. Each step chooses the width again.
    """
    T, labels = signals.shape[1], np.unique(classes, return_counts=True)
    start = DEFAULT._replace(**{"pooled": 0.0, **values})
    if labels[1].max() < MIN_SIGNALS or len(values) == len(start):
        return DEFAULT._replace(**values)
    spacings = tuple(dict.fromkeys([0, *(T // share for share in WINDOW_SHARES if T // share >= 2)]))
    slides = tuple(T // share for share in SLIDE_SHARES if share <= T and signals.size <= MAX_SLID)
    steps: list[dict[str, tuple[Any, ...]]] = [
        {"spacing": spacings, "roughness": ROUGHNESSES},
        {"pooled": POOLED if len(labels[0]) > 1 else (0.0,)},
        {"slide": slides, "spacing": spacings},
        {"roughness": ROUGHNESSES},
        {"shift": (0, T // SHIFT_SHARE)},
    ]
    folds = list(_folds(signals, classes))
    best, best_score = start, -np.inf
    for step in steps:
        choices, before = {name: tried for name, tried in step.items() if name not in values}, best
        for combination in product(*choices.values()):
            setting = before._replace(**dict(zip(choices, combination, strict=True)))
            widths = (start.width,) if "width" in values else WIDTHS
            scores = sum(_score_fold(signals, classes, fold, setting, widths) for fold in folds)
            if np.max(scores) > best_score:
                best_score = float(np.max(scores))
                best = setting._replace(width=widths[int(np.argmax(scores))])
    return best


def _folds(signals: Array, classes: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Signals that are kept, signals that are left out and scored, and the features that are, for each fold.

    These are evenly spaced times and channels.
    """
    _, T, C = signals.shape
    channels = np.unique(np.linspace(0, C - 1, min(C, MAX_SCORED_CHANNELS)).round().astype(int))
    times = np.unique(np.linspace(0, T - 1, min(T, MAX_SCORED_FEATURES // len(channels))).round().astype(int))
    points = (times[:, None] * C + channels).ravel()
    labels, counts = np.unique(classes, return_counts=True)
    largest = labels[np.argsort(-counts, kind="stable")[:MAX_SCORED_CLASSES]]
    rng, parts = np.random.default_rng(0), []
    for label in labels:
        members = np.flatnonzero(classes == label)
        parts.append(members[np.sort(rng.permutation(len(members))[:MAX_SCORED])])
    for f in range(N_FOLDS):
        left_out = np.concatenate([members[f::N_FOLDS] for members in parts if len(members) >= MIN_SIGNALS])
        kept = np.setdiff1d(np.concatenate(parts), left_out)
        scored = left_out[np.isin(classes[left_out], largest)]
        if len(scored):
            yield kept, scored, points


def _score_fold(
    signals: Array, classes: Array, fold: tuple[Array, Array, Array], setting: WindowSetting, widths: Sequence[float]
) -> Array:
    """The total log density of the scored signals of a fold for each width (W,), with kernels around the kept ones."""
    kept, scored, points = fold
    shares = np.full(len(kept), 1 / len(kept))
    groups, log_weights = kernel_groups(signals[kept], shares, classes[kept], setting)
    _, T, C = signals.shape
    windows = np.repeat(power_windows(T, setting.spacing), C, axis=1)[:, points]
    total = np.zeros(len(widths))
    for label in np.unique(classes[scored]):
        values = signals[scored[classes[scored] == label]].reshape(-1, T * C)[:, points]
        log_densities = np.full((len(widths), len(values)), -np.inf)
        for group, weight in zip(groups, log_weights, strict=True):
            if classes[kept][group.members[0]] == label:
                kernels = log_kernel_densities(group.at(points), windows, values, tuple(widths))
                for w, densities in enumerate(kernels):
                    joint = np.logaddexp.reduce(weight[group.members][:, None] + densities, axis=0)
                    log_densities[w] = np.logaddexp(log_densities[w], joint)
        total += log_densities.sum(1)
    return total
