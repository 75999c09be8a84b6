"""Normalizations that signals have in common: which are found, and that new signals have them."""

import numpy as np
import pytest

import stochattn as sa
from stochattn.kinds.signals.generator.alignment import interpolate_cubic, register, resample_to_grid
from stochattn.kinds.signals.generator.deformations import LocalDistributions, block_means
from stochattn.kinds.signals.generator.normalization import AREA, EXTREMES, MEAN, MOMENTS, PEAK, SIZE, Normalization

T = 50
NEW_TOO = ", and so do new signals without conditions"


def waves(n, seed=0, lowest=-np.inf):
    """Signals (n, T) without a common statistic: waves of different amplitudes and offsets with noise."""
    rng = np.random.default_rng(seed)
    phase, size, level = rng.random((n, 1)), rng.uniform(1, 3, (n, 1)), rng.normal(4, 0.5, (n, 1))
    found = level + size * np.sin(np.arange(T) / 5 + 6 * phase) + 0.1 * rng.normal(size=(n, T))
    return np.maximum(found, lowest)


def scaled(x, statistic):
    return x / statistic(x)[:, None]


NORMALISED = {
    "moments": (MOMENTS, lambda x: 2 + 3 * (x - x.mean(1)[:, None]) / x.std(1)[:, None], [2, 3]),
    "extremes": (EXTREMES, lambda x: (x - x.min(1)[:, None]) / np.ptp(x, axis=1)[:, None], [0, 1]),
    "area": (AREA, lambda x: scaled(np.maximum(x, 0), lambda y: y.sum(1)), [1 / T]),
    "size": (SIZE, lambda x: scaled(x - 4, lambda y: np.linalg.norm(y, axis=1)), [T**-0.5]),
    "peak": (PEAK, lambda x: scaled(x - 4, lambda y: np.abs(y).max(1)), [1]),
    "mean": (MEAN, lambda x: x - x.mean(1)[:, None] + 0.5, [0.5]),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_a_common_normalization_is_found_and_applied(name):
    rule, normalized, statistics = NORMALISED[name]
    stored, other = (normalized(waves(12, seed))[:, :, None] for seed in (0, 1))
    found = Normalization.of(stored)
    [known] = found.rules.values()
    assert known.rule is rule
    np.testing.assert_allclose(known.wanted, [statistics], atol=1e-9)
    np.testing.assert_array_equal(found.apply(stored), stored)
    new = 1.1 * other + 0.03 * stored[:, ::-1] + 0.1 * np.abs(stored).max()
    applied = found.apply(new)
    np.testing.assert_allclose(rule.statistics(applied[:, :, 0]), np.tile(statistics, (12, 1)), atol=1e-9)
    shapes = [np.corrcoef(a[:, 0], b[:, 0])[0, 1] for a, b in zip(new, applied, strict=True)]
    np.testing.assert_allclose(shapes, 1)  # each is shifted and scaled only
    alike = found.match(new, found.statistics(stored[::-1] * 2))[:, :, 0]
    np.testing.assert_allclose(rule.statistics(alike), rule.statistics(2 * stored[::-1, :, 0]), atol=1e-9)


def test_positive_signals_with_a_common_mean_stay_positive():
    """Spectra of area 1 are scaled and not shifted."""
    stored = scaled(waves(12, lowest=0.0), lambda x: x.sum(1))[:, :, None]
    new = Normalization.of(stored).apply(1.5 * np.where(stored > np.median(stored), stored, 0.0))
    assert (new == 0).any()
    assert (new >= 0).all()
    np.testing.assert_allclose(new.sum((1, 2)), 1)


def test_rounded_signals_follow_the_rule_and_others_do_not():
    """Three decimals move the mean of 50 values by about 4e-5. An offset of 1 % in one signal breaks the rule."""
    normalized = NORMALISED["moments"][1](waves(12))
    rounded = normalized.round(3)[:, :, None]
    assert Normalization.of(rounded).rules[0].rule is MOMENTS
    np.testing.assert_array_equal(Normalization.of(rounded).apply(rounded), rounded)
    rounded[3] += 0.03
    assert not Normalization.of(rounded).rules


@pytest.mark.parametrize(
    "signals",
    [
        waves(12),
        NORMALISED["moments"][1](waves(4)),  # four may agree by chance
        np.full((12, T), 0.1),
        1000 + 1e-7 * NORMALISED["moments"][1](waves(12)),
        np.zeros((12, T)),
        1e120 * NORMALISED["moments"][1](waves(12)),
        1e-120 * NORMALISED["moments"][1](waves(12)),
    ],
    ids=["none", "few", "constant", "rounding", "zero", "huge", "tiny"],
)
def test_no_rule_is_found(signals):
    found = Normalization.of(signals[:, :, None])
    assert not found.rules
    assert found.describe() == ""
    np.testing.assert_array_equal(found.apply(2 * signals[:, :, None]), 2 * signals[:, :, None])
    assert found.statistics(signals[:, :, None]) == {}
    np.testing.assert_array_equal(found.match(signals[:, :, None], {}), signals[:, :, None])


def test_new_signals_are_as_near_to_the_rule_as_stored_ones():
    """Signals that are off by less than the tolerance of a rule, and more than the stored ones, are corrected."""
    stored = scaled(waves(12, lowest=0.0), lambda x: x.sum(1))[:, :, None]
    found = Normalization.of(stored)
    np.testing.assert_allclose(found.apply(1.0005 * stored).sum((1, 2)), 1, rtol=1e-12)
    assert found.describe() == "all signals have sum 1" + NEW_TOO
    unit = scaled(waves(12) - 4, lambda x: np.linalg.norm(x, axis=1))[:, :, None]
    assert "norm 1," in Normalization.of(unit).describe()


def test_five_signals_are_enough():
    assert Normalization.of(NORMALISED["moments"][1](waves(5))[:, :, None]).rules[0].rule is MOMENTS


def test_a_new_signal_without_variation_stays():
    """A deviation that is a rounding error is not amplified."""
    stored = NORMALISED["moments"][1](waves(12))[:, :, None]
    for level in (5.0, 0.1):
        new = np.full((1, T, 1), level) + 1e-13 * waves(1)[:, :, None]
        np.testing.assert_allclose(Normalization.of(stored).apply(new), np.full((1, T, 1), 2.0), atol=1e-9)
    peaks = NORMALISED["peak"][1](waves(12))[:, :, None]
    np.testing.assert_array_equal(Normalization.of(peaks).apply(np.zeros((1, T, 1))), np.zeros((1, T, 1)))


def test_each_channel_has_its_own_rule():
    parts = [NORMALISED["moments"][1](waves(12)), waves(12, 1), NORMALISED["peak"][1](waves(12, 2))]
    found = Normalization.of(np.stack(parts, axis=2))
    assert {c: fitted.rule for c, fitted in found.rules.items()} == {0: MOMENTS, 2: PEAK}
    assert found.describe() == "all signals have a common normalization in 2 of 3 channels" + NEW_TOO
    two = Normalization.of(np.stack(parts[:2], axis=2)).describe()
    assert two == "all signals have mean 2 and standard deviation 3 in 1 of 2 channels" + NEW_TOO
    same = Normalization.of(np.stack([parts[0], parts[0][::-1]], axis=2)).describe()
    assert same == "all signals have mean 2 and standard deviation 3" + NEW_TOO


def plateaus(n, seed=0):
    """Plateaus (n, T, 1) at different times, with mean 0 and standard deviation 1, so that long ones are low."""
    rng, t = np.random.default_rng(seed), np.arange(T)
    begin, end = rng.normal(15, 2, (n, 1)), rng.normal(33, 4, (n, 1))
    raw = 1 / (1 + np.exp(begin - t)) - 1 / (1 + np.exp(end - t))
    return ((raw - raw.mean(1, keepdims=True)) / raw.std(1, keepdims=True))[:, :, None]


def test_normalized_signals_are_compared_after_a_warp_and_a_normalization():
    """Plateaus differ by their times alone: once these agree, and heights do, next to nothing is left."""
    x = plateaus(12)
    seen, others, left = resample_to_grid(x), np.delete(np.arange(12), 4), []
    fixed, own = (np.repeat(rows[4:5], 11, axis=0) for rows in (seen, x))
    for normalization in (Normalization((T, 1)), Normalization.of(x)):
        warped = interpolate_cubic(x[others], register(seen[others], fixed, T, normalization))
        warped = normalization.match(warped, normalization.statistics(own))
        left.append(np.square(warped - own).sum() / np.square(x[others] - own).sum())
    assert left[1] < left[0] / 2
    law, spread = (
        LocalDistributions(x, np.zeros(12, dtype=int), 0.9).distribution(4),
        np.square(x - x.mean(0)).sum((1, 2)).mean(),
    )
    assert np.square(law.values).sum() < 0.002 * spread


def test_new_plateaus_are_as_high_as_their_length_says():
    """The height falls with the share of points above the mean as it does in stored plateaus."""

    def shares_and_heights(signals):
        return (signals > 0).mean(1), np.nanmedian(np.where(signals > 0.3, signals, np.nan), axis=1)

    stored = plateaus(30)[:, :, 0]
    new = sa.fit(stored, "signals").sample(200, rng=0)
    np.testing.assert_allclose(new.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(new.std(1), 1, rtol=1e-12)
    line = np.polyfit(*shares_and_heights(stored), 1)
    share, height = shares_and_heights(new)
    assert np.polyfit(share, height, 1)[0] == pytest.approx(line[0], rel=0.1)
    assert np.std(height - np.polyval(line, share)) < 0.25 * height.std()


def test_the_most_alike_after_a_warp_are_neighbours():
    """Three late pulses of one shape, and three of another shape at the right time, which are nearer before warps."""
    t = np.arange(T)
    shapes = [np.exp(-(((t - at) / 3) ** 2) / 2) for at in (20, 25.0, 25.2, 25.4)]
    others = [0.8 * np.exp(-(((t - 20) / 3) ** 2) / 2) + 0.25 * np.sin(t * rate) for rate in (2.0, 2.1, 2.2)]
    x = np.stack(shapes + others)[:, :, None]
    away = np.square(x - x[0]).sum((1, 2))
    assert away[4:].max() < away[1:4].min()
    law = LocalDistributions(x, np.zeros(7, dtype=int), 0.9, neighbors=3).distribution(0)
    late = 2 * law.warps[:3] + law.warp
    assert (late[:, 20] > 4).all()


def test_noise_does_not_choose_the_neighbours():
    """Of six late pulses, three have the shape and much noise, and three are quiet and of another height."""
    t, rng = np.arange(T), np.random.default_rng(0)
    pulse = np.exp(-(((t - 20) / 3) ** 2) / 2)
    noisy, quiet = pulse + 0.25 * rng.normal(size=(3, T)), np.array([0.55, 0.5, 0.45])[:, None] * pulse
    x = np.stack([pulse, *noisy, *quiet])[:, :, None]
    away = np.square(x - x[0]).sum((1, 2))
    assert away[4:].max() < away[1:4].min()
    law = LocalDistributions(x, np.zeros(7, dtype=int), 0.9, neighbors=3).distribution(0)
    heights = (2 * law.values[:3] + law.value)[:, 18:23, 0].mean(1)
    assert np.abs(heights).max() < 0.3


def test_stored_signals_decode_to_themselves_and_conditions_hold():
    x = plateaus(12)[:, :, 0]
    synth = sa.fit(x, "signals")
    np.testing.assert_array_equal(synth.codec.decode(synth.codec.encode(x)), synth.codec.stored)
    assert "all signals have mean 0 and standard deviation 1" + NEW_TOO in synth.codec.notes
    given = synth.condition({(0, 5): 0.25}).sample(4, rng=0)
    np.testing.assert_array_equal(given[:, :5], 0.25)


def test_stored_signals_in_another_order_of_memory_stay():
    """Their statistics differ by the rounding of sums."""
    raw = np.random.default_rng(0).normal(size=(20, 97, 1))
    x = (raw - raw.mean(1, keepdims=True)) / raw.std(1, keepdims=True)
    np.testing.assert_array_equal(Normalization.of(x).apply(np.asfortranarray(x)), x)


def test_conditioned_signals_are_not_normalized():
    """The conditioned values and the others fit each other: a shift of the others alone would tear them apart."""
    codec = sa.fit(plateaus(12)[:, :, 0], "signals").codec.condition({(0, 5): 0.25}).codec
    arrays = codec.encode(3 + waves(4))
    np.testing.assert_array_equal(codec.decode(arrays)[:, 0, 5:], 3 + waves(4)[:, 5:])


def test_values_below_the_limit_do_not_count():
    """Spectra of sum 1 whose draws fall below 0 are cut first, and then have the sum 1."""
    synth = sa.fit(scaled(waves(12, lowest=0.0), lambda x: x.sum(1)), "signals")
    new = synth.codec.decode(synth.codec.encode(synth.codec.stored) - 0.01)
    assert (new == 0).any()
    np.testing.assert_allclose(new.sum(2), 1, rtol=1e-12)


def test_whole_numbers_have_no_rule_which_rounding_would_break():
    counts = np.random.default_rng(0).multinomial(100, np.full(T, 1 / T), size=12)
    synth = sa.fit(counts, "signals")
    assert not synth.codec.normalization.rules
    assert not any(NEW_TOO in note for note in synth.codec.notes)


def test_a_part_of_the_signals_is_normalized_as_all_are():
    codec = sa.fit(plateaus(8)[:, :, 0], "signals").codec
    half = codec.refit(codec.stored[:4])
    np.testing.assert_allclose(half.decode(2 * half.encode(half.stored)).std(2), 1)
    assert not Normalization.of(np.swapaxes(half.stored, 1, 2)).rules  # four alone do not show it


def test_long_signals_are_compared_in_blocks():
    x, ends = np.arange(2 * 11 * 3.0).reshape(2, 11, 3), ((0, 3), (3, 6), (6, 9), (9, 11))
    np.testing.assert_allclose(block_means(x, 4), np.stack([x[:, a:b].mean(1) for a, b in ends], axis=1))
    np.testing.assert_array_equal(block_means(x, 11), x)


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_a_constant_channel_does_not_count(level):
    """Rounding errors of its mean are not a variance."""
    x = plateaus(9)
    with_other = LocalDistributions(
        np.concatenate([x, np.full_like(x, level)], axis=2), np.zeros(9, dtype=int), 0.9
    ).distribution(4)
    alone = LocalDistributions(np.concatenate([x, np.zeros_like(x)], axis=2), np.zeros(9, dtype=int), 0.9).distribution(
        4
    )
    np.testing.assert_allclose(with_other.warps, alone.warps, atol=1e-9)
    np.testing.assert_allclose(with_other.values[:, :, 0], alone.values[:, :, 0], atol=1e-9)


def test_signals_without_a_rule_are_not_changed():
    synth = sa.fit(waves(12), "signals")
    arrays = synth.codec.encode(waves(3, seed=5))
    np.testing.assert_array_equal(synth.codec.decode(arrays)[:, 0], waves(3, seed=5))
    assert not any("and so do new signals without conditions" in note for note in synth.codec.notes)
