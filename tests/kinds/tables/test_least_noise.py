"""The least noise that makes no near-copies, against a search through all widths one by one."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import stochattn as sa
from stochattn.core.neighbors import nearest_distances
from stochattn.kinds.comparison import share_near
from stochattn.kinds.tables.generator import fit as least_noise
from stochattn.kinds.tables.generator.fit import (
    MAX_NEARNESS_OF_BEST,
    choose_noise,
    is_crowded,
    list_widths,
    measure_nearness,
)
from stochattn.kinds.tables.generator.neighborhoods import KernelParams

WIDTH = KernelParams(0.2, 0.5, 20)
TRIED = [KernelParams(s, 0.5, 20) for s in (0.05, 0.1, 0.15, 0.2)] + [
    KernelParams(0.2, 0.5, 30),
    KernelParams(0.2, 0.5, 50),
]


@dataclass(frozen=True)
class Kernels:
    """A generator whose draws are near so many times as often as stored rows."""

    width: KernelParams
    nearness: float
    searched: bool = False

    @property
    def kernels(self):
        return self

    def sample(self, n, rng):
        return SimpleNamespace(values=np.full((n, 1), self.nearness), source=np.zeros(n))


@pytest.mark.parametrize(
    ("nearness", "best"),
    [
        ([1, 0, 0, 0, 0, 0], 0),
        ([9, 1.25, 1.1, 1, 0, 0], 1),
        ([9, 1.26, 1.2, 1, 0, 0], 2),
        ([9, 9, 1.3, 1.9, 0, 0], 3),
        ([9, 9, 9, 2.0, 1, 0], 3),
        ([9, 9, 9, 2.5, 2, 1], 4),
        ([9, 9, 9, 9, 2.1, 2], 5),
        ([9, 9, 9, 9, 8, 7], 5),  # the farthest where none is far enough
    ],
)
def test_the_first_width_that_makes_few_near_copies_is_taken(nearness, best, monkeypatch):
    """A quarter more than among stored rows, or twice as many with the likeliest noise and larger neighborhoods."""
    monkeypatch.setattr(least_noise, "measure_nearness", lambda distances, real: distances[0])
    monkeypatch.setattr(least_noise, "nearest_distances", lambda new, *other, **options: new[:, 0])
    codec = SimpleNamespace(encode=lambda items: items, decode=lambda values, source: values)
    by_width, fitted = dict(zip(TRIED, nearness, strict=True)), []

    def fit(width):
        fitted.append(width)
        return Kernels(width, by_width[width])

    likeliest = Kernels(WIDTH, by_width[WIDTH])
    found = choose_noise(codec, np.zeros((100, 1)), likeliest, fit)
    assert found.width == TRIED[best]
    assert found.searched == (best != 3)
    assert (found is likeliest) == (best == 3)
    assert WIDTH not in fitted
    assert len(fitted) <= 3


def test_shares_of_noise_rise_in_small_steps():
    widths = list_widths(KernelParams(0.99, 0.5, 0), 100)
    noise = np.array([width.noise for width in widths])
    assert noise[0] == 0.05
    assert ((np.diff(noise) > 0) & (np.diff(noise) < 0.16)).all()
    assert widths[-1] == KernelParams(0.99, 0.5, 0)  # all rows are neighbors: no neighborhood is larger


def test_larger_neighborhoods_follow_where_there_are_neighbors_at_all():
    assert all(width.neighbors == 0 for width in list_widths(KernelParams(0.5, 0.5, 0), 1000))
    assert max(width.neighbors for width in list_widths(KernelParams(0.5, 0.5, 1), 1000)) > 1


def test_repeats_among_stored_rows_do_not_hide_near_copies():
    """Ten rows of a hundred are stored twice: new rows right beside stored ones are near-copies all the same."""
    real = np.concatenate([np.zeros(20), np.linspace(1, 2, 80)])
    assert measure_nearness(np.full(100, 0.5), real) > MAX_NEARNESS_OF_BEST
    assert measure_nearness(real, real) == pytest.approx(1)
    assert measure_nearness(np.concatenate([np.zeros(60), np.full(40, 2.0)]), real) == pytest.approx(
        3
    )  # copies over repeats


def test_rows_that_nearly_repeat_do_not_hide_near_copies():
    """Eight of 100 rows are nearly another one; beyond these, new rows are as far from stored ones as they are."""
    rng = np.random.default_rng(1)
    latent = rng.normal(size=(100, 3))
    rows = np.hstack([latent, latent @ rng.normal(size=(3, 3))]) + 0.3 * rng.normal(size=(100, 6))
    rows[:4] = rows[4:8] + 1e-3 * rng.normal(size=(4, 6))
    synth = sa.fit(rows, "table", trial=False)
    stored = synth.codec.encode(synth.codec.stored)
    distances = nearest_distances(synth.codec.encode(synth.sample_items(1000, 0)), stored)
    assert share_near(distances, nearest_distances(stored), 0.2) < 0.5


@pytest.mark.parametrize(("n_near", "crowded"), [(0, False), (200, False), (300, True), (1000, True)])
def test_crowding_is_two_and_a_half_times_the_share_of_stored_rows(n_near, crowded):
    """Eight of 100 stored rows nearly repeat another one, and so many of 1,000 new rows are nearer than the others."""
    real = np.concatenate([np.full(8, 1e-3), np.linspace(1, 2, 92)])
    distances = np.concatenate([np.full(n_near, 0.5), np.full(1000 - n_near, 1.5)])
    assert is_crowded(distances, real) == crowded
    assert measure_nearness(distances, real) == 0
    assert not is_crowded(distances, np.zeros(100))
    assert not is_crowded(np.zeros(100), real)
