"""Parts of a run that workers share: which chains they have, where these start, and what they continue."""

from contextlib import contextmanager

import numpy as np
import pytest

import stochattn as sa
from banks import make_bank
from stochattn._backend.console import Progress
from stochattn.samplers import loop
from stochattn.samplers.plan import Plan

BLOCK = 8  # rows of a product over a bank that fits the cache


def plan_of(n_chains, first_chain=0, start="memories"):
    chains = {"rng": 0, "n_chains": n_chains, "first_chain": first_chain, "warmup": 0}
    if isinstance(start, sa.Draws):
        chains = dict.fromkeys(chains)
    steps = {"n_steps": 8, "thin": 4, "keep": None, "start": start, "sigma_init": 0.01, "span": None}
    return Plan(make_bank("subset"), 8.0, sampler="mala", options={}, **chains, **steps)


@pytest.mark.parametrize(("n_chains", "first_chain"), [(40, 0), (37, 19), (17, 7), (200, 16)])
def test_parts_are_whole_blocks_and_have_every_chain_once(n_chains, first_chain):
    plan = plan_of(n_chains, first_chain)
    made = loop.parts_of(plan, 3)
    assert len(made) == 3
    assert [i for part in made for i in part.chains] == list(plan.chains)
    assert all(part.chains.start % BLOCK == 0 for part in made[1:])
    sizes = [len(part.chains) for part in made]
    assert max(sizes) - min(sizes) <= 2 * BLOCK


def test_a_part_has_a_bounded_number_of_chains(monkeypatch):
    monkeypatch.setattr(loop, "MAX_PART", 16)
    assert [len(part.chains) for part in loop.parts_of(plan_of(64), 2)] == [16] * 4
    assert len(loop.parts_of(plan_of(65), 2)) == 6


def test_one_worker_or_one_block_is_one_part():
    for plan, n_jobs in ((plan_of(40), 1), (plan_of(BLOCK), 2), (plan_of(3), 4)):
        assert loop.parts_of(plan, n_jobs) == [plan]


def test_each_part_starts_at_its_own_states():
    states = np.random.default_rng(0).standard_normal((21, 12))
    for start in (states, np.arange(21) % 3 + (np.arange(21) % 3 > 0)):  # memories 0, 2 and 3 are kept
        made = loop.parts_of(plan_of(21, 5, start), 2)
        np.testing.assert_array_equal(np.concatenate([part.start for part in made]), start)
        assert [len(part.start) for part in made] == [len(part.chains) for part in made]


def test_errors_about_the_start_name_all_chains():
    with pytest.raises(ValueError, match="one entry for each of the 40 chains; got 39"):
        loop.parts_of(plan_of(40, start=np.zeros((39, 12))), 2)
    with pytest.raises(ValueError, match="memory 1 has weight zero"):
        loop.parts_of(plan_of(40, start=np.array([0] * 39 + [1])), 2)


def test_each_part_continues_its_own_chains():
    draws = sa.run(make_bank("subset"), 8.0, sampler="mala", n_chains=21, first_chain=5, n_steps=8, warmup=0, thin=4)
    made = loop.parts_of(plan_of(None, None, draws), 2)
    assert [(part.earlier.settings.first_chain, part.earlier.settings.n_chains) for part in made] == [
        (part.chains.start, len(part.chains)) for part in made
    ]
    for name, value in draws.last.state.items():
        found = [part.earlier.state[name] for part in made]
        if np.ndim(value):
            np.testing.assert_array_equal(np.concatenate(found), value)
        else:
            assert found == [value] * 2


def test_a_device_or_a_cluster_has_one_part(monkeypatch):
    plan = plan_of(40)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "on_cuda", lambda patterns: True)
        assert loop.parts_of(plan, 2) == [plan]
    monkeypatch.setattr(loop, "is_sharded", lambda patterns: True)
    assert loop.parts_of(plan, 2) == [plan]


def test_progress_counts_the_chains_of_finished_parts(monkeypatch):
    """The parts run in this process, one after the other, in the place of workers."""
    counts = []

    class Recorded(Progress):
        def update(self, done):
            counts.extend([done] if self.total == 24 else [])
            super().update(done)

    @contextmanager
    def here(work, parts, n_jobs):
        yield map(work, parts)

    monkeypatch.setattr(loop, "Progress", Recorded)
    monkeypatch.setattr(loop, "in_workers", here)
    options = {"n_chains": 24, "first_chain": 5, "n_steps": 8, "warmup": 0, "thin": 4, "rng": 0}
    draws = sa.run(make_bank("unit"), 8.0, **options, n_jobs=2)
    assert counts == [11, 24]  # chains 5 to 15 and 16 to 28
    np.testing.assert_array_equal(draws.samples, sa.run(make_bank("unit"), 8.0, **options).samples)
