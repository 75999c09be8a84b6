"""The contest of signals: time warping by brute force, rivals that recover laws, measures, and what is kept of them."""

import itertools
import json
import sys

import numpy as np
import pytest

from benchmarks import dtw, signal_data, signals
from benchmarks.rivals import (
    block_bootstrap,
    class_gaussian_process,
    dtw_barycenters,
    jitter_scale_warp,
    signal_vae,
)
from benchmarks.signal_data import SignalSet, few, halves
from benchmarks.signal_measures import Classifiers, RandomKernels, quality


def brute_force(a, b, band):
    """Distance and path (i, j) of two signals (C, T), by the definition."""
    T = a.shape[1]
    total = np.full((T + 1, T + 1), np.inf)
    total[0, 0] = 0
    for i in range(T):
        for j in range(T):
            if abs(i - j) <= band:
                total[i + 1, j + 1] = np.square(a[:, i] - b[:, j]).sum() + min(
                    total[i, j], total[i, j + 1], total[i + 1, j]
                )
    i, j, path = T - 1, T - 1, []
    while True:
        path.append((i, j))
        if i == j == 0:
            return np.sqrt(total[T, T]), path
        steps = [(total[i, j], i - 1, j - 1), (total[i, j + 1], i - 1, j), (total[i + 1, j], i, j - 1)]
        _, i, j = min(steps, key=lambda one: one[0])


def walks(n, C=2, T=13, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=(n, C, T)), axis=2)


def two_classes(n=40, T=24):
    """Signals (n, 1, T) of two classes: a pulse early or late, of varying height."""
    rng, classes = np.random.default_rng(0), np.arange(n) % 2
    at = rng.normal(8 + 6 * classes, 1)[:, None]
    pulse = rng.normal(1, 0.2, (n, 1)) * np.exp(-(((np.arange(T) - at) / 2) ** 2) / 2)
    return (pulse + rng.normal(0, 0.05, (n, T)))[:, None], classes


@pytest.mark.parametrize("band", [0, 1, 4, None])
def test_distances_are_those_of_the_definition(band, monkeypatch):
    monkeypatch.setattr(dtw, "CELLS_AT_A_TIME", 20)  # several parts
    a, b = walks(7), walks(7, seed=1)
    expected = [brute_force(x, y, 13 if band is None else band)[0] for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(dtw.distances(a, b, band), expected)


def test_pairs_that_are_left_out_are_not_the_nearest():
    a, b = walks(9), walks(30, seed=1)
    every = np.array([[brute_force(x, y, 2)[0] for y in b] for x in a])
    found, which = dtw.nearest(a, b, 2, np.full(9, np.inf))
    np.testing.assert_allclose(found, every.min(1))
    np.testing.assert_array_equal(which, every.argmin(1))
    within = np.median(every.min(1))
    found, which = dtw.nearest(a, b, 2, np.full(9, within))
    np.testing.assert_allclose(found, np.minimum(every.min(1), within))
    np.testing.assert_array_equal(which, np.where(every.min(1) < within, every.argmin(1), -1))


def test_a_step_of_barycenter_averaging(monkeypatch):
    monkeypatch.setattr(dtw, "PATH_CELLS_AT_A_TIME", 13**2 * 4)  # several parts
    centres, others = walks(3), walks(6, seed=1).reshape(3, 2, 2, 13)
    weights = np.array([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]])
    found = dtw.warped_means(centres, others, weights)
    for centre, rows, shares, mean in zip(centres, others, weights, found, strict=True):
        total, mass = np.zeros((2, 13)), np.zeros(13)
        for row, share in zip(rows, shares, strict=True):
            for i, j in brute_force(centre, row, 13)[1]:
                total[:, i] += share * row[:, j]
                mass[i] += share
        np.testing.assert_allclose(mean, total / mass)


def test_barycenters_of_long_signals_stay_within_a_band(monkeypatch):
    """Within a band of 0, points are aligned with those of the same time, and averages are weighted means."""
    centres, others = walks(3), walks(6, seed=1).reshape(3, 2, 2, 13)
    weights = np.array([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]])
    np.testing.assert_allclose(
        dtw.warped_means(centres, others, weights, 0), np.einsum("nk,nkct->nct", weights, others)
    )
    assert dtw_barycenters.band_of(300) is None
    assert dtw_barycenters.band_of(301) == 30
    x, classes = two_classes()
    monkeypatch.setattr(dtw_barycenters, "MAX_POINTS", 23)
    monkeypatch.setattr(dtw_barycenters, "BAND_SHARE", 0.0)
    new = dtw_barycenters.draw(x, classes, np.arange(4), np.random.default_rng(0))
    near = dtw_barycenters.neighbors(x, classes)
    for i in range(4):  # half of the signal, 0.15 of two of its neighbors, and the others
        means = [
            0.5 * x[i] + 0.15 * x[[*two]].sum(0) + 0.2 / 3 * x[[k for k in near[i] if k not in two]].sum(0)
            for two in itertools.combinations(near[i], 2)
        ]
        assert min(np.abs(new[i] - mean).max() for mean in means) < 1e-12
    euclidean = np.sqrt(np.square(x[0] - x[near[0]]).sum((1, 2)))
    assert (np.diff(euclidean) >= 0).all()  # neighbors at the same times


def test_barycenters_stay_within_classes_and_near_their_signal():
    x, classes = two_classes()
    new = dtw_barycenters.draw(x, classes, np.arange(10), np.random.default_rng(0))
    assert ((new[:, 0].argmax(1) > 11) == classes[:10]).all()
    assert (classes[dtw_barycenters.neighbors(x, classes)] == classes[:, None]).all()
    assert dtw.distances(new, x[:10]).mean() < dtw.distances(x[2:12], x[:10]).mean()


def test_blocks_keep_their_time_and_class():
    marks = np.arange(8)[:, None, None] * 1000.0 + np.arange(16) + 100 * np.arange(2)[:, None]
    classes = np.arange(8) % 2
    new = block_bootstrap.draw(marks, classes, np.arange(8), np.random.default_rng(0))
    np.testing.assert_array_equal(new[:, 0] % 1000, np.tile(np.arange(16.0), (8, 1)))
    origin = (new[:, 0] // 1000).astype(int)
    np.testing.assert_array_equal(origin, new[:, 1] // 1000)  # channels together
    assert (classes[origin] == classes[:, None]).all()
    changes = (np.diff(origin) != 0).sum(1)
    assert changes.max() <= 4
    assert changes.min() < changes.max() or changes.max() > 0


def test_the_gaussian_process_has_the_law_of_a_stationary_one():
    """400 autoregressions with coefficient 0.8: covariances of neighbors within five standard errors."""
    rng, x = np.random.default_rng(0), np.zeros((400, 1, 30))
    x[:, :, 0] = rng.normal(size=(400, 1)) / 0.6
    for t in range(1, 30):
        x[:, :, t] = 0.8 * x[:, :, t - 1] + rng.normal(size=(400, 1))
    assert class_gaussian_process.chosen_share(x) >= 0.4
    new = class_gaussian_process.draw(x, np.zeros(400), np.zeros(2000, dtype=int), rng)[:, 0]
    products = (new[:, 1:] * new[:, :-1]).mean(1)
    assert abs(products.mean() - 0.8 / 0.36) < 5 * (products.std() / np.sqrt(2000) + 0.8 / 0.36 / np.sqrt(2000))
    one = np.random.default_rng(1).normal(size=(50, 1, 4)) * [1, 1, 1, 5]
    assert class_gaussian_process.chosen_share(one) < 1  # a variance that changes is not stationary


def test_augmented_signals_are_their_signals_warped_and_scaled():
    x, classes = two_classes()
    new = jitter_scale_warp.draw(x, classes, np.arange(40), np.random.default_rng(0))
    assert new.shape == x.shape
    assert 0.5 < np.corrcoef(new.max(2)[:, 0], x.max(2)[:, 0])[0, 1] < 1
    assert not np.isclose(new, x).all(2).any()


def test_the_autoencoder_draws_within_classes(monkeypatch):
    monkeypatch.setattr(signal_vae, "EPOCHS", 60)
    x, classes = two_classes()
    new = signal_vae.draw(x, classes, np.arange(20), np.random.default_rng(0))
    assert new.shape == (20, 1, 24)
    middle = [x[classes == c].mean(0) for c in (0, 1)]
    nearer = [int(np.square(one - middle[1]).sum() < np.square(one - middle[0]).sum()) for one in new]
    assert np.mean(nearer == classes[:20]) > 0.8


def test_splits_are_disjoint_and_have_the_shares_of_classes():
    x, classes = np.arange(60.0).reshape(60, 1, 1), np.arange(60) % 3 // 2
    data = SignalSet("made", x, classes)
    half, rare = halves(data, 0), few(data, 0)
    assert len(half.stored) == len(half.held_out) == 30
    assert np.bincount(half.classes).tolist() == np.bincount(half.truth).tolist() == [20, 10]
    assert np.bincount(rare.classes).tolist() == [10, 10]
    for one in (half, rare):
        assert not set(one.stored.ravel()) & set(one.held_out.ravel())
        assert (classes[one.stored.ravel().astype(int)] == one.classes).all()
    assert not np.array_equal(halves(data, 1).stored, half.stored)


def test_the_stored_signals_are_copies_with_their_own_spectra():
    half = halves(SignalSet("made", *two_classes()), 0)
    found = quality(half.stored, half)
    assert found[:2] == (1.0, 1.0)
    assert found[3:] == pytest.approx((1, 1))
    rough = quality(half.stored + np.random.default_rng(0).normal(0, 1, half.stored.shape), half)
    assert rough.spectra > 3
    assert rough.copies == 0


def test_features_are_shares_and_largest_values_of_convolutions():
    x, _ = two_classes(6)
    kernels = RandomKernels(x, np.random.default_rng(0))
    dilation, weights, thresholds = kernels.groups[0]
    expected = np.zeros(24)
    for t in range(24):
        for j in range(9):
            expected[t] += weights[0, j] * x[2, 0, min(max(t + dilation * (j - 4), 0), 23)]
    features = kernels.features(x)[2]
    assert features[0] == pytest.approx((expected > thresholds[0]).mean())
    assert features[len(weights)] == pytest.approx(expected.max())


def test_classifiers_gain_from_signals_of_the_right_classes_and_lose_from_others():
    x, classes = two_classes(200)
    data = few(SignalSet("made", x, classes), 0)
    data = data._replace(stored=data.stored[:4], classes=data.classes[:4])
    judge = Classifiers(data, 0)
    right = judge.gains(x, classes)
    wrong = judge.gains(x, 1 - classes)
    assert min(right) >= 0 > max(wrong)
    assert judge.gains(x[:0], classes[:0]) == (0, 0)


def test_what_is_kept_is_not_measured_again(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(signals, "signal_set", lambda name: SignalSet(name, *two_classes(48)))
    kept, methods = tmp_path / "made" / "signals.jsonl", [signals.STORED, "block bootstrap"]
    arguments = ["signals", "--seeds", "2", "--sets", "gestures", "--kept", str(kept.parent), "--methods", *methods]
    monkeypatch.setattr(sys, "argv", arguments)
    signals.main()
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(row["kind"], row["data"], row["split"], row["name"]) for row in rows] == [
        ("signals", "gestures", seed, method) for seed in (500, 501) for method in methods
    ]
    assert "| block bootstrap |" in capsys.readouterr().out
    monkeypatch.setattr(signals, "METHODS", dict.fromkeys(signals.METHODS))  # nothing is drawn
    signals.main()
    assert "### gestures" in capsys.readouterr().out


def test_verdicts_name_what_is_lost():
    row = {
        "train_proximity": 0.6,
        "copies": 0.0,
        "spectra": 2.5,
        "autocorrelation": 1.0,
        "dtw_gain": 1.0,
        "rocket_gain": 3.0,
    }
    found = {("a", 0, name): row for name in signals.METHODS}
    found["a", 0, "VAE"] = row | {"dtw_gain": 2.0, "train_proximity": 0.9}
    lines = list(signals.verdicts(found, ["a"], range(1)))
    assert lines[0] == "- train proximity at most 0.7: on 1 of 1 sets."
    assert lines[2] == "- spectra at most 2: on 0 of 1 sets. Not on a."
    assert lines[4] == "- 1-NN-DTW gain at least that of every rival: on 0 of 1 sets. Not on a (VAE)."
    assert lines[5] == "- ROCKET gain at least that of every rival: on 1 of 1 sets."
    assert lines[6] == "- 1-NN-DTW gain at least that of every augmentation: on 1 of 1 sets."
    found["a", 0, "block bootstrap"] = row | {"rocket_gain": 3.5}
    lines = list(signals.verdicts(found, ["a"], range(1)))
    assert lines[7] == "- ROCKET gain at least that of every augmentation: on 0 of 1 sets. Not on a (block bootstrap)."


def test_without_the_package_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(signal_data, "find_spec", lambda name: None)
    with pytest.raises(
        SystemExit, match=r"aeon, which contains the signals, is not installed\. Install it: pip install"
    ):
        signal_data.signal_set("GunPoint")


@pytest.mark.parametrize("name", signal_data.MADE_UP)
def test_made_up_signals_have_two_classes(name):
    data = signal_data.signal_set(name)
    assert data.signals.shape == (300, 1, 150)
    assert np.bincount(data.classes).tolist() == [150, 150]
