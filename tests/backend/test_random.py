"""Random streams: they depend on seed, chain and step only, and no number repeats."""

import numpy as np
import pytest
from scipy import stats

from stochattn._backend import random
from stochattn._backend.random import EPOCH, NumpyStreams


def noise(seed=0, chains=range(3), step=0, end=10, width=4, dtype=np.float64):
    with NumpyStreams(seed, chains, np.zeros((1, 1), dtype), step, end) as streams:
        rows = []
        for t in range(step, end):
            streams.step = t
            rows.append(streams.normal(width)[streams.active_rows].copy())
        return np.stack(rows, 1)


def test_depends_on_seed_chain_and_step_only(monkeypatch):
    whole = noise(chains=range(20), end=EPOCH + 50)
    np.testing.assert_array_equal(noise(chains=range(7, 9), end=EPOCH + 50), whole[7:9])
    np.testing.assert_array_equal(noise(chains=range(20), step=EPOCH - 3, end=EPOCH + 50), whole[:, EPOCH - 3 :])
    monkeypatch.setattr(random, "BLOCK_BYTES", 999)
    np.testing.assert_array_equal(noise(chains=range(20), end=EPOCH + 50), whole)
    assert not np.array_equal(noise(seed=1), noise(seed=2))


def test_nothing_repeats():
    """No number of one chain or epoch occurs in another; float64 normals collide with probability below 1e-8."""
    numbers = noise(chains=range(10), end=2 * EPOCH + 10)
    assert len(np.unique(numbers)) == numbers.size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_they_are_standard_normals(dtype):
    numbers = noise(chains=range(8), end=3000, dtype=dtype).ravel()
    assert numbers.dtype == dtype
    assert stats.kstest(numbers.astype(float), "norm").pvalue > 1e-4


def test_the_other_distributions():
    with NumpyStreams(0, range(8), np.zeros((1, 1)), 0, 3000) as streams:
        draws = {"chi2": [], "expon": [], "uniform": []}
        for t in range(3000):
            streams.step = t
            draws["chi2"].append(streams.chi_square(5)[:, 0].copy())
            draws["expon"].append(streams.exponential()[:, 0].copy())
            draws["uniform"].append(streams.uniform()[:, 0].copy())
    for name, arguments in (("chi2", (5,)), ("expon", ()), ("uniform", ())):
        assert stats.kstest(np.ravel(draws[name]), name, args=arguments).pvalue > 1e-4
    correlation = np.corrcoef([np.ravel(d) for d in draws.values()]) - np.eye(3)
    assert np.abs(correlation).max() < 5 / np.sqrt(24_000)


def test_starts_have_uniforms_of_their_own_and_fresh_seeds_differ():
    with NumpyStreams(0, range(3, 6), np.zeros((1, 1)), 0, 5) as streams:
        expected = [random.generator(0, random.Purpose.START, chain, 1).random() for chain in (3, 4, 5)]
        assert streams.uniform_at_start().tolist() == expected
    fresh = {random.seed_of(None) for _ in range(3)}
    assert len(fresh) == 3
    assert all(isinstance(seed, int) for seed in fresh)


def test_a_purpose_has_one_width():
    with NumpyStreams(0, range(3), np.zeros((1, 1)), 0, 5) as streams:
        streams.normal(2)
        with pytest.raises(ValueError, match="width must be 2"):
            streams.normal(3)


def test_some_rows_cost_nothing_for_the_chains_of_other_rows(monkeypatch):
    with NumpyStreams(0, range(3, 40), np.zeros((1, 1)), 0, 5) as streams:
        whole = streams.at_kept(2)
        visited, original = [], random.generators
        monkeypatch.setattr(random, "generators", lambda *key: visited.append(key[2]) or original(*key))
        for rows in (slice(0, 8), slice(8, 24), slice(32, 40)):
            np.testing.assert_array_equal(streams.at_kept(2, rows), whole[rows])
        assert visited == [range(3, 8), range(8, 24), range(32, 40)]


@pytest.mark.parametrize("seed", [0, 3, 2**32, 2**200 + 7])
def test_generators_are_children_of_the_seed_by_purpose_chain_and_further_keys(seed):
    for chains in (range(5, 17), range(2**32 - 2, 2**32 + 2), range(0)):
        for key in ((), (1,), (7, 9)):
            sequences = [np.random.SeedSequence(seed, spawn_key=(4, chain, *key)) for chain in chains]
            expected = [np.random.Generator(np.random.SFC64(sequence)).random() for sequence in sequences]
            generators = random.generators(seed, random.Purpose.KEPT, chains, *key)
            assert [rng.random() for rng in generators] == expected


def test_idle_rows_are_zero():
    with NumpyStreams(0, range(3, 6), np.zeros((1, 1)), 0, 5) as streams:
        assert streams.rows == 8
        assert streams.active_rows == slice(3, 6)
        row = streams.normal(2)
        assert (row[:3] == 0).all()
        assert (row[6:] == 0).all()
        assert (row[3:6] != 0).all()
