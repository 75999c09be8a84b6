"""Every sampler against the exact law.

Null hypothesis: after n steps from independent exact draws, states are distributed as the mixture (MALA and exact draws
exactly; ULA at alpha = 0.01 up to a bias of alpha/2 = 0.5 % in variances, about half a standard error here; underdamped
Langevin at h = 0.1 up to a bias of order h², which vanishes inside a basin).
Each statistic is a mean over independent chains, compared with the closed form in units of its standard error; the
threshold is 5. With about 20 statistics in each of 64 cases, a correct sampler would fail once in 1,500 sets of seeds.

Power, at 4,000 chains, as `make faults` measures it, in standard errors of the worst statistic of the first failing
case: noise √(α/β) 31, √(2α)/β 71; β missing from the logits 36; exp(β‖m‖²/2) left out 39; multiplicities left out 23;
MALA without the asymmetry term 28, with its sign turned 38, accepting everything 8, without the complement in its
ratio 6.
"""

from functools import cache

import numpy as np
import pytest

import stochattn as sa
from banks import BANKS, LIBRARIES, ingredients, make_bank
from closed_form import Mixture, z_score
from stochattn._backend.random import NumpyStreams
from stochattn.samplers import SAMPLERS, draw
from stochattn.samplers.complement import OscillatorComplement, RadialComplement, choose_space

BETA = 8.0
CHAINS = 4000
THRESHOLD = 5.0
PROTOCOL = {
    "exact": {"n_steps": 2},
    "ula": {"n_steps": 300, "alpha": 0.01},
    "mala": {"n_steps": 60, "alpha": 0.1},
    "underdamped": {"n_steps": 60, "step_size": 0.1, "friction": 1.0},
}
"""Options, with so many steps that a fault of a step adds up."""
FASTER = {"exact": {}, "ula": {"alpha": 0.02}, "mala": {"alpha": 0.02}, "underdamped": {"step_size": 0.1}}
"""Options with which 400 steps are eight relaxation times or more."""


@cache
def reference(kind, beta):
    """The exact law, and energies and nearest memories of 200,000 of its draws: the same in many tests."""
    law = Mixture.from_ingredients(*ingredients(kind), beta)
    draws = law.draw(200_000, seed=1)
    return law, law.table_energy(draws), law.nearest(draws)


def law_z_scores(x, kind, beta):
    """Standard errors between states x (n, d) and the exact law, a dictionary of statistics."""
    law, energies, expected = reference(kind, beta)
    scores = {"square": z_score(np.square(x).sum(1), law.mean_square())}
    for i, a in enumerate(np.random.default_rng(0).standard_normal((4, law.d))):
        mean, second = law.projection_moments(a)
        scores[f"mean {i}"] = z_score(x @ a, mean)
        scores[f"second moment {i}"] = z_score((x @ a) ** 2, second)
    error = energies.std() / np.sqrt(len(energies))
    scores["energy"] = z_score(law.table_energy(x), energies.mean(), error)
    found = law.nearest(x)
    for k in law.numbers:
        share = (expected == k).mean()
        error = np.sqrt(share * (1 - share) * (1 / len(x) + 1 / len(expected)))
        scores[f"nearest {k}"] = ((found == k).mean() - share) / error
    outside = x - x @ np.linalg.pinv(law.means) @ law.means
    codimension = law.d - len(law.means)
    scores["complement"] = z_score(np.square(outside).sum(1), codimension / law.beta)
    return scores


def require_law(x, kind, beta=BETA):
    scores = law_z_scores(np.asarray(x), kind, float(beta))
    worst = max(scores, key=lambda name: abs(scores[name]))
    assert abs(scores[worst]) < THRESHOLD, f"{worst} is {scores[worst]:.1f} standard errors off the exact law"


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("span", [True, False], ids=["span", "direct"])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_follows_the_exact_law(sampler, library, span, kind):
    bank = make_bank(kind, library)
    start = Mixture.from_ingredients(*ingredients(kind), BETA).draw(CHAINS, seed=2)
    options = PROTOCOL[sampler]
    draws = sa.run(
        bank,
        BETA,
        sampler=sampler,
        n_chains=CHAINS,
        keep=[options["n_steps"]],
        start=start,
        rng=3,
        span=span,
        **options,
    )
    require_law(draws.pooled(), kind)
    assert draws.settings.dimensions == (len(bank.kept) if span else bank.d)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_float32_follows_the_exact_law(sampler, library):
    bank, options = make_bank("unequal", library, np.float32), PROTOCOL[sampler]
    start = Mixture.from_ingredients(*ingredients("unequal"), BETA).draw(CHAINS, seed=2)
    settings = {"n_chains": CHAINS, "keep": [options["n_steps"]], "start": start, "rng": 3, **options}
    draws = sa.run(bank, BETA, sampler=sampler, **settings)
    assert np.asarray(draws.samples).dtype == np.float32
    require_law(np.asarray(draws.pooled()).astype(float), "unequal")


def energy_of(X, r):
    """E up to a constant, and attend, from their definitions."""

    def energy(x, beta):
        return 0.5 * (x @ x) - np.log(r @ np.exp(beta * X @ x)) / beta

    def attend(x, beta):
        a = r * np.exp(beta * X @ x)
        return a @ X / a.sum()

    return energy, attend


def line_by_line(sampler, x, X, r, betas, alpha, noise):
    """States after each step and acceptances of Algorithms 1 and 2, implemented line by line with Eq. 21 as printed."""
    energy, attend = energy_of(X, r)
    states, accepted = [], []
    for t, beta in enumerate(betas):
        noise.step = t
        eps, exponential = noise.normal(len(x[0])), noise.exponential()[:, 0]
        for i in range(len(x)):
            mu = (1 - alpha) * x[i] + alpha * attend(x[i], beta)
            proposal = mu + np.sqrt(2 * alpha / beta) * eps[i]
            mu_back = (1 - alpha) * proposal + alpha * attend(proposal, beta)
            log_r = -beta * (energy(proposal, beta) - energy(x[i], beta))
            log_r -= beta / (4 * alpha) * (np.sum((x[i] - mu_back) ** 2) - np.sum((proposal - mu) ** 2))
            accepted.append(sampler == "ula" or -exponential[i] < log_r)
            x[i] = proposal if accepted[-1] else x[i]
        states.append(x.copy())
    return np.stack(states, 1), np.reshape(accepted, (len(betas), len(x)))


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("schedule", [False, True], ids=["constant", "annealed"])
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_agree_with_the_algorithms_of_the_paper(sampler, schedule, kind):
    """The same noise through the printed equations gives the same states, step by step, and the same acceptances."""
    X, r = ingredients(kind)
    betas = np.geomspace(2.0, 30.0, 60) if schedule else np.full(60, 8.0)
    start = np.random.default_rng(0).standard_normal((4, 12)) / 2
    with NumpyStreams(5, range(4), X, 0, 60) as noise:
        states, accepted = line_by_line(sampler, start.copy(), X, r, betas, 0.2, noise)
    options = {"alpha": 0.2, "start": start, "n_chains": 4, "n_steps": 60, "warmup": 0, "thin": 1, "rng": 5}
    draws = sa.run(make_bank(kind), betas, sampler=sampler, span=False, **options)
    np.testing.assert_allclose(draws.samples, states, atol=1e-9)
    np.testing.assert_allclose(draws.acceptance, accepted.mean(0))
    assert sampler == "ula" or 0.2 < accepted.mean() < 0.98


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("schedule", [False, True], ids=["constant", "annealed"])
def test_underdamped_chains_agree_with_the_splitting(schedule, kind):
    """BAOAB line by line with the same noise gives the same states, step by step; momenta start from N(0, I/beta)."""
    X, r = ingredients(kind)
    attend = energy_of(X, r)[1]
    betas = np.geomspace(2.0, 30.0, 60) if schedule else np.full(60, 8.0)
    h, friction, start = 0.3, 0.7, np.random.default_rng(0).standard_normal((4, 12)) / 2
    x, c, states = start.copy(), np.exp(-friction * h), []
    with NumpyStreams(5, range(4), X, 0, 60) as noise:
        p = noise.at_kept(12)[:4] / np.sqrt(betas[0])
        for t, beta in enumerate(betas):
            noise.step = t
            eps = noise.normal(12)
            for i in range(4):
                p[i] -= h / 2 * (x[i] - attend(x[i], beta))
                x[i] += h / 2 * p[i]
                p[i] = c * p[i] + np.sqrt((1 - c**2) / beta) * eps[i]
                x[i] += h / 2 * p[i]
                p[i] -= h / 2 * (x[i] - attend(x[i], beta))
            states.append(x.copy())
    options = {"step_size": h, "friction": friction, "n_steps": 60, "warmup": 0, "thin": 1, "rng": 5}
    draws = sa.run(make_bank(kind), betas, sampler="underdamped", span=False, start=start, n_chains=4, **options)
    np.testing.assert_allclose(draws.samples, np.stack(states, 1), atol=1e-9)


def test_the_oscillator_complement_has_the_law_of_its_steps():
    """Mean and covariance after n steps of (x, p) ← A (x, p) + b ε, by matrices; and a draw with that covariance."""
    A, b = np.array([[0.9, 0.3], [-0.4, 0.7]]), np.array([0.2, 0.5])
    mean, covariance = np.eye(2), np.zeros((2, 2))
    for _ in range(7):
        mean, covariance = A @ mean, A @ covariance @ A.T + np.outer(b, b)
    space = choose_space(make_bank("unit"))
    x, p = (space.outside(part) for part in np.random.default_rng(0).standard_normal((2, 4000, 12)))
    after = OscillatorComplement(x, p).advance((0.9, 0.3, -0.4, 0.7), (0.2, 0.5), 7)
    np.testing.assert_allclose(after[2:6], mean.ravel())
    np.testing.assert_allclose(after[6:], covariance[[0, 0, 1], [0, 1, 1]])
    normals = np.random.default_rng(1).standard_normal((4000, 24))
    full, drawn = after.draw(np.zeros((4000, 5)), space, lambda width: normals)
    np.testing.assert_allclose(space.project(full), 0, atol=1e-12)
    noise = [space.outside(part) - (mean[i, 0] * x + mean[i, 1] * p) for i, part in enumerate((full, drawn.p))]
    for i, j in ((0, 0), (0, 1), (1, 1)):  # seven directions; a wrong factor of two is 50 standard errors away
        assert abs(z_score((noise[i] * noise[j]).sum(1), 7 * covariance[i, j])) < THRESHOLD


def test_the_radial_complement_is_two_lengths_and_a_direction():
    """The part drawn when a state is kept has exactly the lengths that the steps have computed."""
    bank = make_bank("unit")
    space = choose_space(bank)
    rng = np.random.default_rng(0)
    with NumpyStreams(0, range(8), bank.patterns, 0, 1) as noise:
        x = rng.standard_normal((8, 12))
        radial = RadialComplement.from_state(x, space, noise)
        np.testing.assert_allclose(radial.along[:, 0], np.linalg.norm(space.outside(x), axis=1))
        radial = radial._replace(along=rng.standard_normal((8, 1)), across=rng.random((8, 1)))
        noise.step = 1
        u = np.zeros((8, 5))
        v, after = radial.draw(u, space, noise.at_kept)
    np.testing.assert_allclose(v @ bank.patterns.T, 0, atol=1e-12)
    np.testing.assert_allclose((v * radial.direction).sum(1), radial.along[:, 0])
    np.testing.assert_allclose(np.square(v).sum(1), radial.length_squared[:, 0])
    np.testing.assert_allclose(after.along[:, 0], np.linalg.norm(v, axis=1))


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_a_proposal_moves_the_lengths_of_the_complement_as_it_moves_a_vector(dimensions):
    """One coordinate along the vector, one across it, and the square of the others' noise, which is chi-square."""
    normals, chi_square = np.array([[0.3, -1.2], [0.7, 0.4]]), np.array([[2.5], [1.5]])

    class Noise:
        def normal_outside(self):
            return normals

        def chi_square(self, degrees):
            assert degrees == dimensions - 2
            return chi_square

    along, across = np.array([[2.0], [1.0]]), np.array([[0.5], [3.0]])
    found = RadialComplement(np.eye(2), along, across).propose(Noise(), dimensions, 0.9, 0.2)
    np.testing.assert_allclose(found.along, 0.9 * along + 0.2 * normals[:, :1])
    sideways = 0.9 * across + 0.2 * normals[:, 1:]
    others = 0.2 * np.sqrt(chi_square) if dimensions > 2 else 0.0
    np.testing.assert_allclose(found.across, across if dimensions == 1 else np.hypot(sideways, others))


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_exact_draws_follow_the_exact_law(library, kind):
    bank = make_bank(kind, library)
    require_law(draw(bank, BETA, 20_000, seed=4), kind)


@pytest.mark.parametrize("kind", BANKS)
def test_the_equilibrium_start_is_the_exact_law(kind):
    """One MALA step cannot correct a wrong start, and it preserves the right law."""
    bank = make_bank(kind)
    draws = sa.run(bank, BETA, sampler="mala", n_chains=CHAINS, n_steps=1, keep=[1], start="equilibrium", rng=5)
    require_law(draws.pooled(), kind)


@pytest.mark.parametrize("start", ["memories", "sphere"])
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if not SAMPLERS[name].independent])
def test_chains_forget_where_they_started(sampler, start):
    """At beta = 3 basins have merged, and 600 steps are twelve relaxation times or more."""
    bank = make_bank("weights")
    options = {"n_chains": CHAINS, "n_steps": 600, "keep": [600], "start": start, "rng": 6, **FASTER[sampler]}
    draws = sa.run(bank, 3.0, sampler=sampler, **options)
    require_law(draws.pooled(), "weights", beta=3.0)


def test_ula_variance_within_a_basin():
    """Known bias: (1/β)/(1 − α/2). At α = 0.4 that is 25 % more than 1/β, or 40 standard errors here."""
    alpha, beta, d = 0.4, 1e4, 12
    bank = sa.MemoryBank(np.eye(d)[:2])
    draws = sa.run(bank, beta, alpha=alpha, n_chains=2000, n_steps=60, keep=[60], start=np.zeros(2000, int), rng=7)
    gaps = draws.pooled() - bank.patterns[0]
    variance = 1 / beta / (1 - alpha / 2)
    for part in (gaps[:, :2], gaps[:, 2:]):  # inside the span, and outside
        assert abs(z_score(np.square(part).sum(1), part.shape[1] * variance)) < THRESHOLD


@pytest.mark.parametrize("h", [0.2, 1.0])
def test_underdamped_variance_within_a_basin_is_exact(h):
    """1/β in every direction at any step size. A splitting whose positions are those of leapfrog would have
    (1/β)/(1 − h²/4): at h = 1 that is 33 % more, 52 standard errors in the span and 98 outside it."""
    beta, d = 1e4, 12
    bank = sa.MemoryBank(np.eye(d)[:2])
    options = {"n_chains": 2000, "n_steps": 100, "keep": [100], "start": np.zeros(2000, int), "rng": 7}
    for span in (True, False):
        draws = sa.run(bank, beta, sampler="underdamped", step_size=h, span=span, **options)
        gaps = draws.pooled() - bank.patterns[0]
        for part in (gaps[:, :2], gaps[:, 2:]):
            assert abs(z_score(np.square(part).sum(1), part.shape[1] / beta)) < THRESHOLD


@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_mala_acceptance_in_equilibrium_is_the_same_in_the_span(alpha):
    """The acceptance rate depends on the law of log r; span and direct must agree, complement included."""
    bank = make_bank("unequal")
    rates = [
        sa.run(
            bank,
            40.0,
            sampler="mala",
            n_chains=2000,
            n_steps=50,
            keep=[50],
            alpha=alpha,
            start="equilibrium",
            rng=8,
            span=s,
        ).acceptance
        for s in (True, False)
    ]
    error = np.sqrt(sum(r.var() / len(r) for r in rates))
    assert abs(rates[0].mean() - rates[1].mean()) < THRESHOLD * error
    assert error < 0.003


@pytest.mark.parametrize(
    ("sampler", "options"),
    [("ula", {"alpha": 0.1}), ("mala", {"alpha": 0.1}), ("underdamped", {"step_size": 0.1, "friction": 1.0})],
)
def test_the_complement_is_correlated_between_kept_states(sampler, options):
    """⟨v_s · v_t⟩ between kept states: under ULA (1−α)^(t−s) of the variance, exactly; the direct version agrees.

    A complement drawn independently for each kept state gives 0, and a constant one 1, each more than 30 standard
    errors away.
    """
    bank, alpha, beta, lag = make_bank("unit"), 0.1, 8.0, 7
    products = {}
    for span in (True, False):
        draws = sa.run(
            bank,
            beta,
            sampler=sampler,
            n_chains=3000,
            n_steps=40,
            keep=[40 - lag, 40],
            start="equilibrium",
            rng=9,
            span=span,
            **options,
        )
        v = draws.samples - draws.samples @ np.linalg.pinv(bank.patterns) @ bank.patterns
        products[span] = (v[:, 0] * v[:, 1]).sum(1)
    error = products[False].std() / np.sqrt(3000)
    assert abs(z_score(products[True], products[False].mean(), error)) < THRESHOLD
    if sampler == "ula":
        expected = (1 - alpha) ** lag * 7 / beta / (1 - alpha / 2)
        assert abs(z_score(products[True], expected)) < THRESHOLD
    assert products[True].mean() / error > 30


@pytest.mark.parametrize("sampler", ["mala", "underdamped"])
@pytest.mark.parametrize("extra", [0, 1, 2, 3])
def test_few_dimensions_outside_the_span(extra, sampler):
    """The radial complement has special cases at one and two dimensions."""
    rng = np.random.default_rng(1)
    X = (
        np.concatenate([rng.standard_normal((3, 2)), np.zeros((3, extra))], axis=1)
        @ np.linalg.qr(rng.standard_normal((2 + extra, 2 + extra)))[0]
    )
    bank = sa.MemoryBank(X)
    law = Mixture.of(bank, 4.0)
    draws = sa.run(
        bank,
        4.0,
        sampler=sampler,
        n_chains=CHAINS,
        n_steps=40,
        keep=[20, 40],
        **({"alpha": 0.3} if sampler == "mala" else {"step_size": 0.1}),
        start=law.draw(CHAINS, 0),
        rng=1,
        span=True,
    )
    assert draws.settings.dimensions == 2
    for kept in (0, 1):
        x = draws.samples[:, kept]
        assert abs(z_score(np.square(x).sum(1), law.mean_square())) < THRESHOLD
        for a in rng.standard_normal((3, bank.d)):
            mean, second = law.projection_moments(a)
            assert abs(z_score(x @ a, mean)) < THRESHOLD
            assert abs(z_score((x @ a) ** 2, second)) < THRESHOLD


def test_a_start_inside_the_span_leaves_it():
    """From exactly on a memory, the complement grows from zero to the variance 1/β in each direction."""
    bank = make_bank("unit")
    for sampler, options in {
        "ula": {"alpha": 0.05},
        "mala": {"alpha": 0.05},
        "underdamped": {"step_size": 0.1},
    }.items():
        settings = {"n_chains": 2000, "n_steps": 400, "keep": [400], "sigma_init": 0.0, "rng": 2}
        draws = sa.run(bank, 50.0, sampler=sampler, **settings, **options)
        v = draws.pooled() - draws.pooled() @ np.linalg.pinv(bank.patterns) @ bank.patterns
        expected = 7 / 50 / ((1 - 0.025) if sampler == "ula" else 1)
        assert abs(z_score(np.square(v).sum(1), expected)) < THRESHOLD
        for a in np.eye(12)[:4]:  # no direction is preferred
            outside = a - a @ np.linalg.pinv(bank.patterns) @ bank.patterns
            assert abs(z_score((v @ a) ** 2, expected / 7 * (outside @ outside))) < THRESHOLD


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_annealing_ends_in_the_law_of_the_last_beta(sampler):
    """From the sphere, beta rising from 0.3 to 3 and then constant for eight relaxation times."""
    bank = make_bank("weights")
    schedule = np.concatenate([np.geomspace(0.3, 3.0, 200), np.full(400, 3.0)])
    options = {"n_chains": CHAINS, "n_steps": 600, "keep": [600], "start": "sphere", "rng": 3, **FASTER[sampler]}
    draws = sa.run(bank, schedule, sampler=sampler, **options)
    require_law(draws.pooled(), "weights", beta=3.0)
    assert draws.settings.beta[-1] == 3.0


@pytest.mark.parametrize("sampler", ["ula", "mala", "underdamped"])
@pytest.mark.parametrize("d", [361, 362, 363, 380])
def test_a_chain_of_a_large_bank_is_the_same_alone_or_among_others(sampler, d):
    """Above 362 dimensions and memories, chains are multiplied 32 at a time instead of eight."""
    bank = sa.MemoryBank(np.random.default_rng(0).standard_normal((400, d)))
    options = {"n_steps": 6, "warmup": 0, "thin": 3, "rng": 3, "sampler": sampler}
    together = sa.run(bank, 0.05, n_chains=70, **options)
    some = sa.run(bank, 0.05, n_chains=3, first_chain=37, **options)
    assert np.array_equal(some.samples, together.samples[37:40])
