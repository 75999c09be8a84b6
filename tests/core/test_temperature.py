"""Temperature rules against finite differences, brute force and the published values."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy.special import logsumexp

from banks import BANKS, make_bank, to_library
from closed_form import Mixture
from stochattn import MemoryBank, StochasticAttention, conditioning, energy, metrics, neighbors, temperature
from stochattn.core import temperature as probes
from stochattn.samplers import draw


def images(K=60, d=100, seed=0):
    """Smooth positive unit rows, with similar rows as in images."""
    rng = np.random.default_rng(seed)
    X = np.exp(rng.standard_normal((K, 8)) @ rng.standard_normal((8, d)) / 3)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", BANKS)
def test_entropy_curve_and_its_derivatives(kind, library):
    bank = make_bank(kind, library)
    betas = np.geomspace(0.1, 50, 9)
    curve = temperature.entropy_curve(bank, betas)
    probes = bank.active.patterns
    expected = [np.asarray(energy.entropy(probes, bank, b)).mean() for b in betas]
    np.testing.assert_allclose(curve.entropy, expected, rtol=1e-10, atol=1e-13)
    h = 1e-5 * betas
    above, below = temperature.entropy_curve(bank, betas + h), temperature.entropy_curve(bank, betas - h)
    np.testing.assert_allclose(curve.slope, (above.entropy - below.entropy) / (2 * h), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(curve.curvature, (above.slope - below.slope) / (2 * h), rtol=1e-5, atol=1e-9)


def test_the_slope_is_minus_beta_times_the_variance():
    """Prop. 3, computed from the weights."""
    bank, x, beta = make_bank("unit"), np.random.default_rng(0).standard_normal(12), 3.0
    p, e = energy.weights(x, bank, beta), bank.patterns @ x
    variance = p @ e**2 - (p @ e) ** 2
    assert temperature.entropy_curve(bank, beta, probes=x).slope[0] == pytest.approx(-beta * variance, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_inflection_is_the_steepest_point(scale):
    """Eq. 11 holds there, and no point of a fine grid is steeper; beta* scales as 1/scale²."""
    X = images()
    beta = temperature.inflection(scale * X)
    assert beta == pytest.approx(temperature.inflection(X) / scale**2, rel=1e-8)
    curve = temperature.entropy_curve(scale * X, [beta])
    fine = temperature.entropy_curve(scale * X, beta * np.geomspace(1e-3, 1e3, 2001))
    assert np.abs(fine.slope).max() <= abs(curve.slope[0]) * (1 + 1e-9)
    overlaps = X @ X.T
    logits = beta * scale**2 * overlaps
    p = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    centred = overlaps - (p * overlaps).sum(1, keepdims=True)
    variance, third = (p * centred**2).sum(1).mean(), (p * centred**3).sum(1).mean()
    assert variance == pytest.approx(-beta * scale**2 * third, rel=1e-6)


def test_inflection_takes_the_higher_of_two_peaks():
    """Two scales of similarity give two zeros of the curvature; the one at the largest slope counts."""
    rng = np.random.default_rng(0)
    centres = np.linalg.qr(rng.standard_normal((40, 40)))[0][:4]
    X = np.repeat(centres, 8, axis=0) + 0.02 * rng.standard_normal((32, 40))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    betas = np.geomspace(0.1, 1e5, 4000)
    curve = temperature.entropy_curve(X, betas)
    zeros = np.flatnonzero(np.diff(np.sign(curve.curvature)))
    assert len(zeros) >= 2
    assert temperature.inflection(X) == pytest.approx(betas[np.argmin(curve.slope)], rel=0.01)


def test_knee_is_the_published_grid_rule():
    """Computed explicitly: argmin of the second difference of H in log beta, H over the first 20 memories."""
    X = images(50)
    betas = np.exp(np.linspace(math.log(0.1), math.log(500), 50))
    H = [np.mean(energy.entropy(X[:20], MemoryBank(X), b)) for b in betas]
    second = [H[i + 1] - 2 * H[i] + H[i - 1] for i in range(1, 49)]
    assert temperature.knee(X) == pytest.approx(betas[1 + int(np.argmin(second))])


@pytest.mark.parametrize("equal_weights", [False, True])
@pytest.mark.parametrize("kind", BANKS)
def test_leave_one_out_maximises_the_held_out_likelihood(kind, equal_weights):
    bank = make_bank(kind)

    def likelihood(beta):
        law = Mixture.of(bank, beta)
        if equal_weights:
            law.weights = law.r / law.r.sum()
        total = 0.0
        for k in range(len(law.means)):
            others = np.arange(len(law.means)) != k
            gaps = np.square(law.means[k] - law.means[others]).sum(1)
            w = law.weights[others] / law.weights[others].sum()
            total += logsumexp(np.log(w) - beta / 2 * gaps) + law.d / 2 * math.log(beta / (2 * math.pi))
        return total

    best = temperature.leave_one_out(bank, equal_weights=equal_weights)
    grid = best * np.geomspace(1e-2, 1e2, 801)
    assert max(map(likelihood, grid)) <= likelihood(best) + 1e-9


@pytest.mark.parametrize("equal_weights", [False, True])
@pytest.mark.parametrize("kind", BANKS)
def test_natural_matches_the_distances_between_memories(kind, library, equal_weights):
    """On 50,000 fresh draws, whose median has an error of 0.2 %; solving on 4,096 draws adds half a percent."""
    bank = make_bank(kind, library)
    beta = temperature.natural(bank, equal_weights=equal_weights)
    law = Mixture.of(bank, beta)
    if equal_weights:
        law.weights = law.r / law.r.sum()
    means = law.means
    gaps = np.linalg.norm(means[:, None] - means, axis=-1) + np.diag(np.full(len(means), np.inf))
    target = np.median(gaps.min(1))
    x = law.draw(50_000, seed=1)
    distances = np.linalg.norm(x[:, None] - means, axis=-1).min(1)
    assert np.median(distances) == pytest.approx(target, rel=0.01)
    assert temperature.natural(bank, equal_weights=equal_weights) == beta


def test_natural_works_in_the_span_when_d_is_large():
    X = images(30, 100)
    wide = X @ np.linalg.qr(np.random.default_rng(0).standard_normal((3000, 100)))[0].T
    beta = temperature.natural(wide)
    law = Mixture.of(MemoryBank(wide), beta)
    distances = neighbors.nearest_memory(law.draw(2000, 0), MemoryBank(wide))[1]
    assert np.median(distances) == pytest.approx(np.median(neighbors.neighbor_distances(MemoryBank(wide))), rel=0.01)


@pytest.mark.parametrize("novelty", [0.01, 0.2, 0.5])
@pytest.mark.parametrize("kind", ["unit", "unequal", "subset"])
def test_for_novelty_gives_that_novelty(kind, novelty):
    """Measured on 100,000 fresh draws; the error of solving on 4,096 is below 0.01."""
    bank = make_bank(kind)
    beta = temperature.for_novelty(bank, novelty)
    x = Mixture.of(bank, beta).draw(100_000, seed=2)
    assert metrics.novelty(x, bank).mean() == pytest.approx(novelty, abs=0.01)


def test_for_novelty_names_the_possible_range():
    X = images()
    with pytest.raises(
        ValueError, match=r"novelty must lie between 0.00 and 0.\d\d for this bank \(K=60, d=100\); got 0.99\."
    ):
        temperature.for_novelty(X, 0.99)
    for novelty in (0.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="novelty must be a positive"):
            temperature.for_novelty(X, novelty)


def test_novelty_around_a_single_memory():
    """A line through one memory m: x is at −m·c with the probability Φ(−‖m‖ √β), whose novelty is 2; else it is 0."""
    memory = [[2.0]]
    assert temperature.novelty_at(memory, 0.25) == pytest.approx(2 * 0.158655, abs=5 * 2 * 0.365 / 64)  # Φ(−1)
    assert temperature.for_novelty(memory, 0.3) == pytest.approx(0.25, abs=0.05)


def test_novelty_weighs_memories_by_their_norms():
    """On a line, memories 0.5 and 2 have the weights r exp(β m²/2), and x < 0, of novelty 2, the mass Φ(−m √β) of each.

    At β = 1 these are 0.133 and 0.867, and 0.3085 and 0.0228: 0.0608 in all. 5 standard errors for 4,096 draws: 0.037.
    """
    assert temperature.novelty_at([[0.5], [2.0]], 1.0) == pytest.approx(2 * 0.0608, abs=0.037)
    assert temperature.novelty_at([[0.5], [2.0]], 1.0, equal_weights=True) == pytest.approx(0.3313, abs=0.06)


def test_novelty_of_well_separated_memories():
    """For well separated unit memories max cos ≈ 1/√(1 + d/β): 0.848 at β = 2000, d = 784."""
    bank = MemoryBank(np.eye(50, 784))
    assert metrics.max_cosine(draw(bank, 2000.0, 2000, 0), bank).mean() == pytest.approx(0.848, abs=0.002)
    assert temperature.for_novelty(bank, 1 - 1 / math.sqrt(1 + 784 / 2000)) == pytest.approx(2000, rel=0.01)


NUMBERS = {"natural": 1.787598, "inflection": 0.383196, "leave_one_out": 0.615438}


@pytest.mark.filterwarnings("ignore:p_beta weights memories")
@pytest.mark.parametrize("rule", NUMBERS)
@pytest.mark.parametrize("exponent", [-153, -150, -100, -77, -40, 0, 40, 77, 100, 150, 153])
def test_rules_work_at_every_scale_that_floats_hold(rule, exponent):
    """beta of c X is beta of X over c²; curves, novelty and draws follow."""
    X, scale = np.random.default_rng(0).standard_normal((12, 5)), 10.0**exponent
    beta = getattr(temperature, rule)(scale * X)
    in_units = beta * scale * scale
    assert in_units == pytest.approx(NUMBERS[rule], rel=1e-5)
    assert temperature.novelty_at(scale * X, beta) == pytest.approx(temperature.novelty_at(X, in_units), rel=1e-6)
    curve, own = temperature.entropy_curve(scale * X, beta), temperature.entropy_curve(X, in_units)
    assert curve.entropy[0] == pytest.approx(own.entropy[0], rel=1e-6)
    assert curve.slope[0] / scale / scale == pytest.approx(own.slope[0], rel=1e-6)
    draws = StochasticAttention(scale * X, beta).sample(5, rng=0)
    np.testing.assert_allclose(draws / scale, StochasticAttention(X, in_units).sample(5, rng=0), rtol=1e-6)


def test_probes_and_files_have_the_scale_of_the_bank(tmp_path):
    X = images(20, 30)
    np.save(tmp_path / "X.npy", 1e120 * X)
    bank = MemoryBank.open(tmp_path / "X.npy")
    for rule in ("natural", "inflection"):
        assert getattr(temperature, rule)(bank) * 1e240 == pytest.approx(getattr(temperature, rule)(X), rel=1e-6)
    expected = temperature.inflection(X, probes=X[:5])
    assert temperature.inflection(1e120 * X, probes=1e120 * X[:5]) * 1e240 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rule", ["natural", "inflection", "knee", "leave_one_out"])
@pytest.mark.parametrize(
    ("exponent", "dtype"),
    [(-300, float), (-155, float), (155, float), (300, float), (-20, np.float32), (19, np.float32), (30, np.float32)],
)
def test_scales_beyond_floats_are_refused_with_a_reason(rule, exponent, dtype):
    X = (np.random.default_rng(0).standard_normal((12, 5)) * 10.0**exponent).astype(dtype)
    with pytest.raises(ValueError, match=r"squared norms that float\d\d can represent; these are too .*Rescale them"):
        getattr(temperature, rule)(X)


def test_the_grid_of_knee_is_refused_far_from_unit_norms():
    with pytest.raises(ValueError, match=r"assumes unit norms; these are 1e\+40. Normalize"):
        temperature.knee(1e40 * np.eye(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_beta_whose_logits_overflow_is_refused_with_a_reason(dtype, library):
    largest = float(np.finfo(dtype).max)
    bank = MemoryBank(to_library(1e4 * np.eye(3, dtype=dtype), library))
    for beta in (largest / 2, largest / 1e7, 1e-300 if dtype == np.float32 else 1e-310):
        with pytest.raises(ValueError, match=f"must be numbers that {np.dtype(dtype)} can represent; got beta="):
            StochasticAttention(bank, beta)
    masked = conditioning.subset(MemoryBank(to_library(np.array([[1e4], [1.0]], dtype=dtype), library)), [1])
    with pytest.raises(ValueError, match="and a squared norm of 1e"):
        StochasticAttention(masked, largest / 1e7).sample(2, rng=0)


def test_scaling_and_conversions():
    assert temperature.random_pattern(64) == 8


@pytest.mark.parametrize("rule", ["natural", "leave_one_out", "inflection"])
def test_rules_look_at_kept_memories_only(rule, library):
    X = images(20, 30)
    masked = conditioning.subset(MemoryBank(to_library(X, library)), range(10))
    assert getattr(temperature, rule)(masked) == pytest.approx(getattr(temperature, rule)(X[:10]), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: temperature.natural([[1.0, 2.0]]), "at least two memories"),
        (lambda: temperature.leave_one_out([[1.0, 2.0]]), "at least two memories"),
        (lambda: temperature.inflection([[1.0, 2.0]]), "too similar"),
        (lambda: temperature.inflection(np.ones((4, 3))), "too similar"),
        (lambda: temperature.knee([[1.0, 2.0]]), "too similar"),
        (lambda: temperature.knee(np.ones((5, 3))), "too similar"),
        (lambda: temperature.natural(np.ones((4, 3))), "at least half of them have a duplicate"),
        (lambda: temperature.leave_one_out(np.ones((4, 3))), "exact duplicate"),
        (lambda: temperature.for_novelty(np.zeros((2, 3)), 0.1), "zero row where norms are needed"),
        (lambda: temperature.natural([1.0, 2.0]), "patterns must be a non-empty matrix"),
        (lambda: temperature.entropy_curve(np.eye(3), [0.0]), "beta must be"),
        (lambda: temperature.entropy_curve(np.eye(3), 1.0, probes=np.eye(2)), "probes must have d=3"),
        (lambda: temperature.random_pattern(0), "d must be at least 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("rule", ["natural", "leave_one_out", "inflection", "knee"])
@pytest.mark.parametrize("X", [np.eye(2), [[0.0], [1.0], [3.0]], np.random.default_rng(0).standard_normal((50, 3))])
def test_rules_on_small_and_crowded_banks(rule, X):
    assert 0 < getattr(temperature, rule)(X) < math.inf


@pytest.mark.parametrize("rule", ["natural", "leave_one_out", "inflection"])
def test_many_memories_are_represented_by_a_part_of_them(rule, monkeypatch):
    """A tenth of the probes moves beta by a few percent, and no (K, K) array is formed."""
    X = images(400, 30)
    whole = getattr(temperature, rule)(X)
    monkeypatch.setattr(probes, "MAX_PAIRS", 400 * 40)
    assert getattr(temperature, rule)(X) == pytest.approx(whole, rel=0.2)
    tracemalloc.start()
    getattr(temperature, rule)(np.random.default_rng(0).standard_normal((20_000, 3)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # all pairs would take 3.2 GB


def test_leave_one_out_finds_optima_far_below_the_scale_of_close_pairs():
    """Near-duplicate pairs of unequal length, whose optimum lies orders of magnitude below what their gaps suggest."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((20, 3)) * rng.uniform(0.5, 3, (20, 1)), 2, axis=0)
    X += 0.01 * rng.standard_normal(X.shape)
    for equal_weights in (False, True):
        best = temperature.leave_one_out(X, equal_weights=equal_weights)
        grid = np.geomspace(1e-4, 1e8, 1000)
        law = [_held_out(X, b, equal_weights) for b in grid]
        assert _held_out(X, best, equal_weights) >= max(law) - 1e-6


def _held_out(X, beta, equal_weights):
    norms = np.zeros(len(X)) if equal_weights else beta * np.square(X).sum(1) / 2
    gaps = np.square(X[:, None] - X).sum(-1)
    others = ~np.eye(len(X), dtype=bool)
    joint = logsumexp(norms - beta / 2 * gaps, axis=1, b=others)
    rest = logsumexp(np.broadcast_to(norms, gaps.shape), axis=1, b=others)
    return (joint - rest).sum() + X.size / 2 * math.log(beta)


@pytest.mark.parametrize("spread", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("seed", range(6))
def test_inflection_of_weighted_banks(seed, spread):
    """Where |dH/dbeta| has a peak it is the highest; where the multiplicities outweigh the overlaps, it is an error."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 6))
    bank = MemoryBank(X / np.linalg.norm(X, axis=1, keepdims=True), log_r=spread * rng.standard_normal(12))
    slopes = np.abs(temperature.entropy_curve(bank, np.geomspace(1e-3, 1e4, 3000)).slope)
    if slopes.argmax() < 300:  # the slope is largest at beta = 0
        with pytest.raises(ValueError, match="outweigh"):
            temperature.inflection(bank)
        return
    beta = temperature.inflection(bank)
    assert slopes.max() <= abs(temperature.entropy_curve(bank, [beta]).slope[0]) * (1 + 1e-6)


@pytest.mark.parametrize("log_ratio", [1e5 + 5, 1e6])
def test_multiplicities_that_no_overlap_outweighs_have_no_inflection(log_ratio):
    """Attention turns at beta = log_ratio: a little above the largest beta that is tried, or far above it."""
    bank = MemoryBank(np.eye(2), np.array([0.0, log_ratio]))
    with pytest.raises(ValueError, match="the multiplicities outweigh the overlaps"):
        temperature.inflection(bank)


def test_knee_looks_at_the_first_20_memories_alone():
    """Attention of these short memories turns sharp beyond the grid, and that of the others, which are long, on it."""
    rng = np.random.default_rng(0)
    X = np.zeros((40, 60))
    X[:20, :40], X[20:, 40:] = 0.001 * rng.standard_normal((20, 40)), 3 * np.eye(20)
    betas = np.geomspace(0.1, 500, 50)

    def knee(n_probes):
        H = [np.mean(energy.entropy(X[:n_probes], MemoryBank(X), b)) for b in betas]
        return betas[1:-1][np.argmin(np.diff(H, 2))]

    assert temperature.knee(X) == pytest.approx(knee(20))
    assert knee(21) != pytest.approx(knee(20))


def test_a_target_that_no_beta_reaches_is_an_error():
    with pytest.raises(ValueError, match="rounding errors hide the beta of this rule"):
        temperature._solve_decreasing(lambda beta: 1.0, 0.5, 1.0)


def test_similar_memories_have_a_transition():
    """Overlaps that differ by 0.005 are far above rounding: beta scales with their inverse."""
    X = np.array([[1.0, 0.05], [1.0, -0.05]])
    assert temperature.inflection(X) > 100


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_memories_are_too_similar_relative_to_their_norms(scale):
    """Overlaps that differ by 2e-13 of the square of the norm are not told apart, at any scale; 2e-11 is enough."""
    difference = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    with pytest.raises(ValueError, match="attention has no transition"):
        temperature.inflection(scale * (np.array([1.0, 0.0]) + 1e-13 * difference))
    beta = temperature.inflection(scale * (np.array([1.0, 0.0]) + 1e-11 * difference))
    assert beta * scale**2 == pytest.approx(1.133e11, rel=1e-2)


def test_the_novelty_curve_has_the_weights_of_the_bank():
    bank = make_bank("unequal")
    assert temperature.novelty_curve(bank)(8.0) == temperature.novelty_at(bank, 8.0)
    assert temperature.novelty_curve(bank)(8.0) != temperature.novelty_at(bank, 8.0, equal_weights=True)


def test_the_natural_beta_of_a_large_bank_may_lie_far_below_the_guess():
    """On a line of 500 memories, draws are as far from the nearest as these are from each other only at its ends."""
    X = 0.1 * np.arange(-250.0, 250.0)[:, None]
    expected = temperature.natural(X, equal_weights=True)
    assert expected < 1 / 0.1**2 / probes.FIRST_FACTOR
    assert probes.natural_beta(MemoryBank(X), 0.1, True) == pytest.approx(expected, rel=0.3)
