"""Mixtures restricted to regions: truncated normal laws far out, and draws by the closed form and by brute force."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, multivariate_normal, norm, truncnorm

from stochattn.core.mixture import Mixture
from stochattn.kinds.regions import Region, Restricted, TruncatedMixture, log_mass, rarity_notes, truncated_normal
from stochattn.kinds.tables.generator.covariance import CovarianceKernels
from stochattn.kinds.tables.generator.neighborhoods import KernelParams

N = 40_000
RNG = np.random.default_rng(0)
ROWS = RNG.normal(0, 1, (12, 3)) + 3 * RNG.integers(0, 2, (12, 1))


def kernels(kind):
    """A mixture of 12 kernels in three dimensions: covariances of their own, one for all, round, or along the axes."""
    if kind in ("local", "pooled"):
        return CovarianceKernels.fit(
            ROWS, width=KernelParams(0.5, 0.5, 5) if kind == "local" else KernelParams(0.3, 1.0, 0)
        )
    scales = np.full((12, 1), 0.8) if kind == "round" else np.random.default_rng(1).uniform(0.3, 1.2, (12, 3))
    return Mixture(ROWS, scales, np.log(np.arange(1.0, 13) / 78))


def box(low, high, rows=((1.0, 0.0, 0.0),), contains=None):
    rows, inside = np.array(rows), contains or (lambda features: np.ones(len(features), dtype=bool))
    return rows, np.zeros(len(rows)), Region(np.arange(len(rows)), np.array(low), np.array(high), inside)


@pytest.mark.parametrize(
    ("low", "high", "log_probability", "median"),
    [  # 50 digits of mpmath, rounded
        (-1.0, 2.0, -0.20016629432446258, 0.17116391801782477),
        (8.0, 9.0, -35.013618593437148, 8.0848888990181664),
        (-40.0, -39.0, -765.08315656437754, -39.017757305232351),
        (30.0, np.inf, -454.32124395634320, 30.023070467827311),
        (3.0, 3.001, -12.328193603728506, 3.0004996249376641),
        (-np.inf, 0.3, -0.48141016158848120, -0.49881258303217014),
    ],
)
def test_truncated_normal_laws_are_accurate_in_the_centre_and_far_out(low, high, log_probability, median):
    low, high = np.array([low]), np.array([high])
    assert log_mass(low, high)[0] == pytest.approx(log_probability, rel=1e-12)
    assert truncated_normal(low, high, np.array([0.5]))[0] == pytest.approx(median, rel=1e-12)
    x = truncated_normal(np.repeat(low, 99), np.repeat(high, 99), np.linspace(0.01, 0.99, 99))
    assert ((x > low) & (x < high)).all()


def test_an_interval_that_holds_all_changes_nothing():
    assert log_mass(np.array([-np.inf]), np.array([np.inf]))[0] == 0.0
    x = truncated_normal(np.full(N, -np.inf), np.full(N, np.inf), np.random.default_rng(0).random(N))
    assert kstest(x, "norm").pvalue > 1e-4


@pytest.mark.parametrize("kind", ["local", "pooled", "round", "axes"])
@pytest.mark.parametrize("given", [False, True], ids=["free", "conditioned"])
def test_draws_have_the_law_of_the_mixture_given_an_interval(kind, given):
    """Null: x_0 and x_1 have the closed-form law given -0.5 <= x_0 <= 1 (and x_2 = 0.4).

    With 40,000 draws a chi-square test at 1e-4 detects cells that are wrong by a total variation of 0.02 (power 0.98).
    Weights of kernels that ignore the interval are wrong by more.
    """
    law = kernels(kind)
    law = law.condition([[0.0, 0.0, 1.0]], [0.4]) if given else law
    x, _, features = Restricted.of(law, *box([-0.5], [1.0])).sample(N, np.random.default_rng(1))
    np.testing.assert_allclose(x[:, 0], features[:, 0], atol=1e-9)
    assert features.min() >= -0.5
    assert features.max() <= 1.0
    edges = np.array([-0.5, -0.1, 0.3, 0.6, 1.0]), np.array([-50.0, -0.5, 0.5, 1.5, 50.0])
    expected = closed_form(law, edges)
    counted = np.histogram2d(x[:, 0], x[:, 1], bins=edges)[0]
    assert (np.square(counted - N * expected) / (N * expected)).sum() < chi2(expected.size - 1).ppf(1 - 1e-4)
    if given:
        np.testing.assert_allclose(x[:, 2], 0.4, atol=1e-9)


def closed_form(law, edges):
    """Probabilities of cells of (x_0, x_1) given x_0 between the outer edges and what was observed."""
    cells = np.zeros((len(edges[0]) - 1, len(edges[1]) - 1))
    for k in range(12):
        if isinstance(law, CovarianceKernels):
            root = law.roots[k if len(law.roots) > 1 else 0]
            cov = root @ root.T
        else:
            cov = np.diag(np.broadcast_to(law.scales[k], 3) ** 2)
        mean, cov2 = law.means[k][:2], cov[:2, :2]
        if law.observed is not None:  # x_2 = 0.4, up to the sign of the row
            mean = mean + cov[:2, 2] / cov[2, 2] * (0.4 - law.means[k][2])
            cov2 = cov2 - np.outer(cov[:2, 2], cov[:2, 2]) / cov[2, 2]
        at = np.array([[[a, b] for b in edges[1]] for a in edges[0]])
        cdf = multivariate_normal(mean, cov2).cdf(at)
        cells += np.exp(law.log_weights[k]) * np.diff(np.diff(cdf, axis=0), axis=1)
    return cells / cells.sum()


def test_several_intervals_and_a_region_agree_with_brute_force():
    """Null: the same law as draws of the mixture that happen to lie in the region; thresholds at 1e-4."""
    from scipy.stats import ks_2samp

    law = kernels("local")
    rows, above = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]]), lambda y: y[:, 0] + y[:, 2] > 0.5
    low, high = [-1.0, -0.5, -np.inf], [2.0, np.inf, np.inf]
    restricted = Restricted.of(law, *box(low, high, rows, above))
    x, k, y = restricted.sample(N, np.random.default_rng(2))
    plain, source = law.sample(10 * N, np.random.default_rng(3))
    z = plain @ rows.T
    inside = ((z >= low) & (z <= high)).all(1) & above(z)
    assert ((y >= low) & (y <= high)).all()
    assert above(y).all()
    np.testing.assert_allclose(x @ rows.T, y, atol=1e-8)
    for axis in range(3):
        assert ks_2samp(x[:, axis], plain[inside, axis]).pvalue > 1e-4
    assert restricted.probability == pytest.approx(inside.mean(), abs=0.02)
    both = np.array([np.bincount(k, minlength=12), np.bincount(source[inside], minlength=12)])
    both = both[:, both.sum(0) > 20]
    expected = both.sum(1, keepdims=True) * both.sum(0) / both.sum()
    assert (np.square(both - expected) / expected).sum() < chi2(both.shape[1] - 1).ppf(1 - 1e-4)
    np.testing.assert_allclose(restricted.shares, np.bincount(k, minlength=12) / N, atol=0.02)


def test_an_interval_far_out_needs_one_attempt_and_its_probability_is_known():
    """For kernels alike in all but their means, P(x_0 > 12) is a sum of tails, here 6e-16."""
    law = Mixture(ROWS, np.full((12, 1), 1.0), np.full(12, -np.log(12.0)))
    restricted = Restricted.of(law, *box([12.0], [np.inf]))
    exact = np.mean(norm.sf(12.0 - ROWS[:, 0]))
    assert exact < 1e-12
    assert restricted.probability == pytest.approx(exact, rel=1e-9, abs=0)
    assert restricted.shares == pytest.approx(norm.sf(12.0 - ROWS[:, 0]) / 12 / exact, rel=1e-9)
    x = restricted.sample(2000, np.random.default_rng(0))[0][:, 0]
    assert x.min() >= 12.0
    excess = ROWS[:, 0].max() - 12.0  # of the kernel that explains nearly all: the mean of a normal tail
    assert x.mean() == pytest.approx(truncnorm(-excess, np.inf, loc=ROWS[:, 0].max()).mean(), abs=0.02)


def test_features_may_have_another_origin():
    """x_0 + 0.7 above 12.7 is x_0 above 12."""
    law = Mixture(ROWS, np.full((12, 1), 1.0), np.full(12, -np.log(12.0)))
    rows, _, region = box([12.7], [np.inf])
    restricted = Restricted.of(law, rows, np.array([0.7]), region)
    assert restricted.probability == pytest.approx(np.mean(norm.sf(12.0 - ROWS[:, 0])), rel=1e-9, abs=0)
    x, _, features = restricted.sample(200, np.random.default_rng(0))
    np.testing.assert_allclose(features[:, 0], x[:, 0] + 0.7)
    assert features.min() >= 12.7


def test_fewer_draws_are_the_first_of_more():
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    restricted = Restricted.of(kernels("local"), *box([0.0, 0.0], [0.3, 0.2], rows))
    assert restricted.probability < 0.05
    few, more = (restricted.sample(n, np.random.default_rng(4)) for n in (30, 300))
    np.testing.assert_array_equal(few[0], more[0][:30])
    np.testing.assert_array_equal(few[1], more[1][:30])


def test_regions_that_are_hardly_met_are_refused_with_their_share():
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    with pytest.raises(
        ValueError, match=r"^condition: less than a share of \S+ of all draws meets its ranges and sets"
    ):
        Restricted.of(kernels("pooled"), *box([-0.001, 0.0], [0.0, 0.00001], rows))
    with pytest.raises(ValueError, match="no probability that floats can tell from zero"):
        Restricted.of(kernels("pooled"), *box([1e300], [np.inf]))


def test_features_that_follow_from_others_are_met_too():
    """The third row is the sum of the others, as in a one-hot block, and one of them is fixed by an equation."""
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    law = kernels("local").condition([[0.0, 1.0, 0.0]], [0.5])
    x, _, y = Restricted.of(law, *box([0.0, -np.inf, -np.inf], [2.0, np.inf, 2.0], rows)).sample(500, RNG)
    np.testing.assert_allclose(x @ np.array(rows).T, y, atol=1e-7)
    np.testing.assert_allclose(y[:, 1], 0.5, atol=1e-7)
    assert (y[:, 2] <= 2.0).all()


def two_kernels():
    """Kernels of unequal weight and width in the plane, as a mixture along the axes."""
    return Mixture(np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([[1.0, 0.5], [0.2, 2.0]]), np.log([0.3, 0.7]))


def test_probability_acceptance_and_shares_of_a_box():
    """Coordinates of a kernel are independent, so that its mass in a box is a product; 16,384 attempts estimate it."""
    law, low, high = two_kernels(), np.array([0.5, -0.5]), np.array([1.5, 2.0])
    sides = norm.cdf((high - law.means) / law.scales) - norm.cdf((low - law.means) / law.scales)
    inside, weights = sides.prod(1), np.array([0.3, 0.7])
    found = Restricted.of(law, *box(low, high, np.eye(2)))
    acceptance = weights @ inside / min(weights @ sides)  # of the interval that holds less
    error = 5 * np.sqrt(0.25 / 2**14)
    assert found.acceptance == pytest.approx(acceptance, abs=error)
    assert found.probability == pytest.approx(weights @ inside, abs=error)
    np.testing.assert_allclose(found.shares, weights * inside / (weights @ inside), atol=2 * error)
    np.testing.assert_array_equal(found.log_shares, np.log(found.shares))
    assert rarity_notes(found.probability) == ()


@pytest.mark.parametrize(("low", "n_notes"), [(2.6, 0), (3.5, 1)])
def test_a_region_of_less_than_one_in_a_thousand_is_noted(low, n_notes):
    law = Mixture(np.zeros((2, 1)), np.ones((2, 1)), np.log([0.5, 0.5]))
    restricted = Restricted.of(law, *box([low], [np.inf], [[1.0]]))
    notes = rarity_notes(restricted.probability)  # 0.0047 and 0.00023 of the draws
    assert len(notes) == n_notes
    assert all("only about 1 in 4,300 draws without the ranges" in note for note in notes)


def test_draws_of_each_kernel_have_its_own_width():
    """Null: x_0 of kernel k is normal with its mean and deviation, between -1 and 1; threshold 1e-4."""
    law = two_kernels()
    x, k, _ = Restricted.of(law, *box([-1.0], [1.0], [[1.0, 0.0]])).sample(5000, np.random.default_rng(0))
    assert len(x) == 5000
    for kernel, (mean, deviation) in enumerate(((0.0, 1.0), (1.0, 0.2))):
        ends = (np.array([-1.0, 1.0]) - mean) / deviation
        assert kstest(x[k == kernel, 0], truncnorm(*ends, loc=mean, scale=deviation).cdf).pvalue > 1e-4


def test_an_interval_without_length_holds_nothing():
    assert log_mass(np.array([1.0]), np.array([1.0]))[0] == -np.inf


@pytest.mark.parametrize("unit", [1.0, 1e-5, 1e5])
def test_features_follow_each_other_in_any_unit(unit):
    """The second feature has a thousandth of the variance of the first, which follows it by 10."""
    covariances = unit**2 * np.array([[[1.0, 1e-2], [1e-2, 1e-3]]])
    ends = unit * np.array([-9.0, 0.1]), unit * np.array([9.0, 0.2])
    law = TruncatedMixture.of(np.zeros((1, 2)), covariances, np.zeros(1), *ends)
    assert law.j == 1
    np.testing.assert_allclose(law.slopes, [[10.0, 1.0]])


def test_the_interval_that_holds_least_is_drawn_first():
    law = TruncatedMixture.of(np.zeros((1, 2)), np.eye(2)[None], np.zeros(1), np.array([0.0, 3.0]), np.full(2, np.inf))
    assert law.j == 1
    assert np.exp(law.log_probability) == pytest.approx(norm.sf(3.0), rel=1e-12)
