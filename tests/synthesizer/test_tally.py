"""What is measured of new items on their way to a file: copies, near-copies and further columns, of numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from stochattn.kinds import comparison
from stochattn.kinds.codec import Batch
from stochattn.synthesizer.parts import Tally


def tally_of(stored):
    """The measurements of numbers beside stored ones (K,); the feature of a number is itself, its novelty too."""
    stored = np.asarray(stored, dtype=float)
    codec = SimpleNamespace(
        stored=stored, labels=None, features=lambda items: items[:, None], take=lambda items, rows: items[rows]
    )
    measures = SimpleNamespace(
        same=lambda codec, one, other: one == other,
        comparable=lambda codec, items: items[:, None],
        stored_vectors=lambda codec, kept: measures.comparable(codec, codec.stored[kept]),
    )
    kind = SimpleNamespace(measures=measures)
    return Tally(SimpleNamespace(kind=kind, codec=codec, novelty=lambda items: items, kept=np.arange(len(stored))))


def added(stored, items, nearest, first=0, **extra):
    """The counts after one batch of numbers (n,), nearest to these of the stored ones (n,)."""
    tally, none = tally_of(stored), np.zeros(len(items))
    items, nearest = np.asarray(items, dtype=float), np.asarray(nearest)
    tally.add(Batch(first, items, nearest, none, extra, nearest))
    return tally.counts


def test_items_nearer_than_the_nearest_stored_ones_are_near_copies():
    """Of a hundred stored numbers in pairs, the gap of one pair is 0.2 and that of all others 0.5."""
    starts = np.arange(50) * 10.0
    stored = np.concatenate([starts, starts + np.append(0.2, np.full(49, 0.5))])
    found = added(stored, [20.0, 20.15, 20.25, 21.0], [2] * 4)
    assert (found.n, found.measured, found.copies) == (4, 4, 1)
    assert found.near_copies == 2  # those nearer than 0.2, the copy among them
    assert found.novelty_decoded == [pytest.approx(81.4)]


def test_near_is_what_one_in_a_hundred_stored_items_is():
    """The k-th of 101 stored numbers is k from the nearest other one: one in a hundred is nearer than 2."""
    gaps = np.arange(1.0, 102.0)
    stored = np.cumsum(np.append(1.0, gaps))[::-1]
    tally = tally_of(stored)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(1.0, gaps))
    assert tally.near_limit == pytest.approx(np.quantile(nearest, 0.01))
    assert 1 < tally.near_limit < 2


@pytest.mark.parametrize(("stored", "near"), [([3.0], 0), ([3.0, 3.5], 1), ([3.0, 3.0, 3.0], 0), ([3.0, 3.0, 3.5], 1)])
def test_where_few_different_items_are_stored(stored, near):
    """A copy is a near-copy too where two stored items differ; equal ones tell no distance, and nothing is compared."""
    found = added(stored, [3.0], [0])
    assert (found.copies, found.near_copies, found.compared) == (1, near, near)
    assert added(stored, [4.1], [0]).near_copies == 0


def test_the_first_4096_items_are_measured_and_the_first_million_summarized():
    found = added([0.0, 1.0], np.full(6, 9.0), np.zeros(6, dtype=int), first=4094)
    assert (found.n, found.measured, found.novelty_decoded) == (6, 2, [18.0])
    found = added([0.0, 1.0], np.full(6, 9.0), np.zeros(6, dtype=int), first=2**20 - 2, energy=np.arange(6.0))
    assert (found.n, found.measured, found.novelty_decoded) == (6, 0, [])
    assert [part.tolist() for part in found.columns["energy"]] == [[0.0, 1.0]]
    found = added([0.0, 1.0], np.full(3, 9.0), np.zeros(3, dtype=int), first=2**20 + 5, energy=np.arange(3.0))
    assert [part.tolist() for part in found.columns["energy"]] == [[]]


@pytest.mark.parametrize("gone", ["nearest", "novelty", "source"])
def test_items_that_are_made_of_many_stored_ones_are_only_counted(gone):
    tally, given = tally_of([0.0, 1.0]), np.zeros(3, dtype=int)
    tally.add(Batch(0, np.zeros(3), given, given, {}, given)._replace(**{gone: None}))
    assert (tally.counts.n, tally.counts.measured, tally.counts.novelty) == (3, 0, [])


def test_counts_that_are_joined_follow_each_other():
    first = added([0.0, 1.0], [0.0, 2.0], [0, 1], energy=np.array([1.0, 2.0]))
    second = added([0.0, 1.0], [1.0], [1], energy=np.array([3.0]))
    first.classes.update("ab")
    second.classes.update("b")
    first.join(second)
    assert (first.n, first.measured, first.copies) == (3, 3, 2)
    assert first.classes == {"a": 1, "b": 2}
    np.testing.assert_array_equal(np.concatenate(first.columns["energy"]), [1.0, 2.0, 3.0])
    assert first.novelty_decoded == [2.0, 1.0]


def test_classes_of_items_are_counted():
    tally, given = tally_of([0.0, 1.0]), np.array([0, 1, 1])
    tally.synth.codec.labels = ("a", "b")
    tally.synth.kind.measures.labels_of = lambda codec, items, source: np.array(codec.labels)[source]
    tally.add(Batch(0, np.zeros(3), given, given, {}, given))
    assert tally.counts.classes == {"a": 1, "b": 2}


@pytest.mark.parametrize(("K", "size", "n"), [(10, 10, 4096), (1000, 4000, 1000), (10_000, 4000, 500)])
def test_as_many_are_compared_as_the_work_allows(K, size, n):
    """4e9 multiplications, and at least 500 vectors; these stored ones take no memory."""
    tally = tally_of([0.0])
    tally.stored_vectors = np.broadcast_to(np.zeros(1), (K, size))
    assert tally.n_compared == n


@pytest.mark.parametrize(("n_vectors", "compared"), [(1, 6), (2, 6), (4, 4)])
def test_only_the_first_items_are_compared_where_that_takes_long(monkeypatch, n_vectors, compared):
    """Six vectors may be compared, of one, two or four for each item; an item that is begun is not left out."""
    monkeypatch.setattr(comparison, "MIN_COMPARED", 6)
    monkeypatch.setattr(comparison, "MAX_WORK", 0)
    tally = tally_of(np.arange(10.0))
    shifts = np.arange(n_vectors) / 10
    tally.synth.kind.measures.comparable = lambda codec, items: (items[:, None] + shifts).reshape(-1, 1)
    for first in (0, 3, 6, 9):
        tally.add(Batch(first, np.zeros(3), np.zeros(3, int), np.zeros(3), {}, np.zeros(3, int)))
    assert tally.counts.measured == 12
    assert tally.counts.compared == compared
