"""The exact law judges every sampler.

Null hypothesis: after n steps from independent exact draws, states are distributed as the mixture (MALA and exact draws
to the letter; ULA at alpha = 0.01 up to a bias of alpha/2 = 0.5 % in variances, about half a standard error here).
Each statistic is a mean over independent chains, compared with the closed form in units of its standard error; the
threshold is 5. With some 20 statistics in each of 48 cases, a correct sampler would fail once in 2,000 sets of seeds.

Power, at 4,000 chains, as `plant_faults.py` measures it, in standard errors of the worst statistic of the first failing
case: noise √(α/β) 31, √(2α)/β 71; β missing from the logits 36; exp(β‖m‖²/2) left out 39; multiplicities left out 23;
MALA without the asymmetry term 28, with its sign turned 38, accepting everything 8, without the rest in its ratio 6.
"""

import numpy as np
import pytest

import stochattn as sa
from closed_form import Mixture, z_score
from conftest import BANKS, LIBRARIES, ingredients, make_bank
from stochattn._backend.random import Tapes
from stochattn.samplers import SAMPLERS, draw
from stochattn.samplers.subspace import Walking, reduce

BETA = 8.0
CHAINS = 4000
THRESHOLD = 5.0
PROTOCOL = {
    "exact": {"n_steps": 2, "alpha": 0.01},
    "ula": {"n_steps": 300, "alpha": 0.01},
    "mala": {"n_steps": 60, "alpha": 0.1},
}


def law_z_scores(x, law):
    """Standard errors between states x (n, d) and the exact law, a dictionary of statistics."""
    scores = {"square": z_score(np.square(x).sum(1), law.mean_square())}
    for i, a in enumerate(np.random.default_rng(0).standard_normal((4, law.d))):
        mean, second = law.projection_moments(a)
        scores[f"mean {i}"] = z_score(x @ a, mean)
        scores[f"second moment {i}"] = z_score((x @ a) ** 2, second)
    reference = law.draw(200_000, seed=1)
    energies = law.table_energy(reference)
    error = energies.std() / np.sqrt(len(energies))
    scores["energy"] = z_score(law.table_energy(x), energies.mean(), error)
    expected, found = law.nearest(reference), law.nearest(x)
    for k in law.numbers:
        share = (expected == k).mean()
        error = np.sqrt(share * (1 - share) * (1 / len(x) + 1 / len(reference)))
        scores[f"nearest {k}"] = ((found == k).mean() - share) / error
    outside = x - x @ np.linalg.pinv(law.means) @ law.means
    rest = law.d - len(law.means)
    scores["rest"] = z_score(np.square(outside).sum(1), rest / law.beta)
    return scores


def require_law(x, kind, beta=BETA):
    scores = law_z_scores(np.asarray(x), Mixture.from_ingredients(*ingredients(kind), beta))
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
def test_float32_follows_the_exact_law_too(sampler, library):
    bank, options = make_bank("unequal", library, np.float32), PROTOCOL[sampler]
    start = Mixture.from_ingredients(*ingredients("unequal"), BETA).draw(CHAINS, seed=2)
    settings = {"n_chains": CHAINS, "keep": [options["n_steps"]], "start": start, "rng": 3, **options}
    draws = sa.run(bank, BETA, sampler=sampler, **settings)
    assert np.asarray(draws.samples).dtype == np.float32
    require_law(np.asarray(draws.pooled()).astype(float), "unequal")


def literally(sampler, x, X, r, betas, alpha, noise):
    """Algorithms 1 and 2, line by line and with Eq. 21 as printed; the states after each step, and who was accepted."""

    def energy(x, beta):
        return 0.5 * (x @ x) - np.log(r @ np.exp(beta * X @ x)) / beta

    def attend(x, beta):
        a = r * np.exp(beta * X @ x)
        return a @ X / a.sum()

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
def test_chains_are_the_algorithms_of_the_paper(sampler, schedule, kind):
    """The same noise through the printed equations gives the same states, step by step, and the same acceptances."""
    X, r = ingredients(kind)
    betas = np.geomspace(2.0, 30.0, 60) if schedule else np.full(60, 8.0)
    start = np.random.default_rng(0).standard_normal((4, 12)) / 2
    with Tapes(5, range(4), X, 0, 60) as noise:
        states, accepted = literally(sampler, start.copy(), X, r, betas, 0.2, noise)
    options = {"alpha": 0.2, "start": start, "n_chains": 4, "n_steps": 60, "warmup": 0, "thin": 1, "rng": 5}
    draws = sa.run(make_bank(kind), betas, sampler=sampler, span=False, **options)
    np.testing.assert_allclose(draws.samples, states, atol=1e-9)
    np.testing.assert_allclose(draws.acceptance, accepted.mean(0))
    assert sampler == "ula" or 0.2 < accepted.mean() < 0.98


def test_the_walk_outside_the_span_is_two_lengths_and_a_direction():
    """What is drawn when a state is kept has exactly the lengths that the steps have settled on."""
    bank = make_bank("unit")
    space = reduce(bank)
    rng = np.random.default_rng(0)
    with Tapes(0, range(8), bank.patterns, 0, 1) as noise:
        x = rng.standard_normal((8, 12))
        walk = Walking.from_state(x, space, noise)
        np.testing.assert_allclose(walk.along[:, 0], np.linalg.norm(space.outside(x), axis=1))
        walk = walk._replace(along=rng.standard_normal((8, 1)), across=rng.random((8, 1)))
        noise.step = 1
        u = np.zeros((8, 5))
        v, after = walk.settle(u, space, noise.at_kept(12))
    np.testing.assert_allclose(v @ bank.patterns.T, 0, atol=1e-12)
    np.testing.assert_allclose((v * walk.direction).sum(1), walk.along[:, 0])
    np.testing.assert_allclose(np.square(v).sum(1), walk.length_squared[:, 0])
    np.testing.assert_allclose(after.along[:, 0], np.linalg.norm(v, axis=1))


@pytest.mark.parametrize("kind", BANKS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_exact_draws_follow_the_exact_law(library, kind):
    bank = make_bank(kind, library)
    require_law(draw(bank, BETA, 20_000, seed=4), kind)


@pytest.mark.parametrize("kind", BANKS)
def test_the_equilibrium_start_is_the_exact_law(kind):
    """One MALA step cannot move a wrong start far enough to pass, and leaves the right law alone."""
    bank = make_bank(kind)
    draws = sa.run(bank, BETA, sampler="mala", n_chains=CHAINS, n_steps=1, keep=[1], start="equilibrium", rng=5)
    require_law(draws.pooled(), kind)


@pytest.mark.parametrize("start", ["memories", "sphere"])
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_forget_where_they_started(sampler, start):
    """At beta = 3 basins have merged, and 600 steps of 0.02 are twelve relaxation times."""
    bank = make_bank("weights")
    draws = sa.run(bank, 3.0, sampler=sampler, n_chains=CHAINS, n_steps=600, keep=[600], alpha=0.02, start=start, rng=6)
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


@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_mala_acceptance_in_equilibrium_is_the_same_in_the_span(alpha):
    """The acceptance rate depends on the law of log r; span and direct must agree, rest included."""
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


@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_the_rest_ages_between_kept_states(sampler):
    """⟨v_s · v_t⟩ between kept states: under ULA (1−α)^(t−s) of the variance, exactly; the direct version agrees.

    A rest drawn anew for each kept state gives 0 and a frozen one 1, each more than 30 standard errors away.
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
            alpha=alpha,
            start="equilibrium",
            rng=9,
            span=span,
        )
        v = draws.samples - draws.samples @ np.linalg.pinv(bank.patterns) @ bank.patterns
        products[span] = (v[:, 0] * v[:, 1]).sum(1)
    error = products[False].std() / np.sqrt(3000)
    assert abs(z_score(products[True], products[False].mean(), error)) < THRESHOLD
    if sampler == "ula":
        expected = (1 - alpha) ** lag * 7 / beta / (1 - alpha / 2)
        assert abs(z_score(products[True], expected)) < THRESHOLD
    assert products[True].mean() / error > 30


@pytest.mark.parametrize("extra", [0, 1, 2, 3])
def test_few_dimensions_outside_the_span(extra):
    """The walk of the rest has special cases at one and two dimensions."""
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
        sampler="mala",
        n_chains=CHAINS,
        n_steps=40,
        keep=[20, 40],
        alpha=0.3,
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


def test_a_start_inside_the_span_finds_the_rest():
    """From exactly on a memory, the rest grows from zero: after many steps it has variance 1/β in each direction."""
    bank = make_bank("unit")
    for sampler in ("ula", "mala"):
        draws = sa.run(
            bank, 50.0, sampler=sampler, n_chains=2000, n_steps=400, keep=[400], alpha=0.05, sigma_init=0.0, rng=2
        )
        v = draws.pooled() - draws.pooled() @ np.linalg.pinv(bank.patterns) @ bank.patterns
        expected = 7 / 50 / ((1 - 0.025) if sampler == "ula" else 1)
        assert abs(z_score(np.square(v).sum(1), expected)) < THRESHOLD
        for a in np.eye(12)[:4]:  # no direction is preferred
            outside = a - a @ np.linalg.pinv(bank.patterns) @ bank.patterns
            assert abs(z_score((v @ a) ** 2, expected / 7 * (outside @ outside))) < THRESHOLD


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_annealing_ends_in_the_law_of_the_last_beta(sampler):
    """From the sphere, beta rising from 0.3 to 3 and then standing there for eight relaxation times."""
    bank = make_bank("weights")
    schedule = np.concatenate([np.geomspace(0.3, 3.0, 200), np.full(400, 3.0)])
    draws = sa.run(
        bank, schedule, sampler=sampler, n_chains=CHAINS, n_steps=600, keep=[600], alpha=0.02, start="sphere", rng=3
    )
    require_law(draws.pooled(), "weights", beta=3.0)
    assert draws.settings.beta[-1] == 3.0


@pytest.mark.parametrize("sampler", ["ula", "mala"])
@pytest.mark.parametrize("d", [361, 362, 363, 380])
def test_large_banks_keep_each_chain_s_bits_too(sampler, d):
    """Above 362 dimensions and memories, chains are multiplied 32 at a time instead of eight."""
    bank = sa.MemoryBank(np.random.default_rng(0).standard_normal((400, d)))
    options = {"n_steps": 6, "warmup": 0, "thin": 3, "rng": 3, "sampler": sampler}
    together = sa.run(bank, 0.05, n_chains=70, **options)
    some = sa.run(bank, 0.05, n_chains=3, first_chain=37, **options)
    assert np.array_equal(some.samples, together.samples[37:40])
