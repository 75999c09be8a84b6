"""Rivals of the protein benchmark on planted laws, kept sequences, and measures by other routes."""

import itertools

import numpy as np
import pytest

from benchmarks import protein_floor, protein_measures, proteins
from benchmarks.rivals import site_softmax
from benchmarks.rivals.ardca import Autoregressive
from benchmarks.rivals.potts import Potts

RIVALS = [Autoregressive, Potts]


def coupled(n, seed=0, planted=0.8):
    """Sequences of ten sites with letters 0 to 3: site 3 repeats site 0 in a planted share, all else is independent."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, 10)).astype(np.uint8)
    same = rng.random(n) < planted
    codes[same, 3] = codes[same, 0]
    return codes


def dependence(codes, i, j):
    """Share of sequences with equal letters at two sites, minus that of independent sites."""
    f, g = (np.bincount(codes[:, site], minlength=21) / len(codes) for site in (i, j))
    return float((codes[:, i] == codes[:, j]).mean() - f @ g)


@pytest.mark.parametrize("rival", RIVALS)
def test_a_planted_coupling_is_reproduced(rival, monkeypatch):
    monkeypatch.setattr("benchmarks.rivals.potts.SWEEPS", 30)
    monkeypatch.setattr(site_softmax, "PENALTIES", (0.001, 0.01))  # few sites add up to less than those of a family
    codes = coupled(120)
    new = rival.fit(codes).sample(1000, np.random.default_rng(1))
    assert new.shape == (1000, 10)
    # The penalty shrinks the planted 0.6. Independent sites have a dependence of 0.04 among 120 stored sequences and of
    # 0.014 among 1,000 new ones, in standard errors.
    assert 0.3 < dependence(new, 0, 3) < dependence(codes, 0, 3) + 0.05
    others = [pair for pair in itertools.combinations(range(10), 2) if pair != (0, 3)]
    assert np.mean([abs(dependence(new, i, j)) for i, j in others]) < 0.06
    stored, drawn = (np.stack([np.bincount(column, minlength=21) for column in x.T]) / len(x) for x in (codes, new))
    np.testing.assert_allclose(stored, drawn, atol=5 * np.sqrt(0.19 / 1000))


@pytest.mark.parametrize("rival", RIVALS)
def test_sites_without_a_coupling_stay_independent(rival, monkeypatch):
    monkeypatch.setattr("benchmarks.rivals.potts.SWEEPS", 30)
    new = rival.fit(coupled(120, seed=2, planted=0.0)).sample(1000, np.random.default_rng(3))
    assert abs(dependence(new, 0, 3)) < 0.15


def test_the_autoregressive_density_sums_to_one_and_is_that_of_its_draws():
    model = Autoregressive.fit(coupled(60)[:, [0, 3, 1]])
    triples = np.array(list(itertools.product(range(21), repeat=3)), dtype=np.uint8)
    density = np.exp(model.log_density(triples))
    assert density.sum() == pytest.approx(1, abs=1e-9)
    drawn = model.sample(20_000, np.random.default_rng(0)).astype(np.int64)
    counted = np.bincount(drawn @ [441, 21, 1], minlength=9261) / 20_000
    common = density > 0.002
    assert (np.abs(counted - density)[common] < 5 * np.sqrt(density[common] / 20_000)).all()


def test_the_conditionals_of_the_pairwise_model_agree_with_one_energy():
    model = Potts.fit(coupled(60)[:, [0, 3, 1]])
    stored, _, fields, dual = model.model
    hot = np.eye(21)[stored]
    # J_ij(a, b) is the mean of both regressions; p(x) ∝ exp(Σ_i h_i(x_i) + Σ_{i<j} J_ij(x_i, x_j)).
    J = {(i, j): (dual[i].T @ hot[:, j] + (dual[j].T @ hot[:, i]).T) / 2 for i, j in ((0, 1), (0, 2), (1, 2))}
    triples = np.array(list(itertools.product(range(21), repeat=3)), dtype=np.uint8)
    energy = sum(fields[i][triples[:, i]] for i in range(3))
    energy = energy + sum(table[triples[:, i], triples[:, j]] for (i, j), table in J.items())
    p = site_softmax.softmax(energy[None])[0].reshape(21, 21, 21)
    some = coupled(8, seed=5)[:, [0, 3, 1]]
    expected = [
        np.log(p[a, b, c] ** 3 / (p[:, b, c].sum() * p[a, :, c].sum() * p[a, b].sum())) for a, b, c in some.tolist()
    ]
    np.testing.assert_allclose(model.log_pseudo_likelihood(some), expected, rtol=1e-9)


def test_penalties_are_those_of_left_out_sequences():
    strong = site_softmax.best_penalty(coupled(60), lambda codes, penalty: lambda rows: np.full(len(rows), -penalty))
    weak = site_softmax.best_penalty(coupled(60), lambda codes, penalty: lambda rows: np.full(len(rows), penalty))
    assert (strong, weak) == (min(site_softmax.PENALTIES), max(site_softmax.PENALTIES))


def test_relatives_count_once():
    codes = np.array([[0] * 10, [0] * 9 + [1], [2] * 10], dtype=np.uint8)
    np.testing.assert_allclose(site_softmax.sequence_weights(codes), [0.25, 0.25, 0.5])


def test_sequences_are_made_once_where_they_are_kept(tmp_path, monkeypatch):
    calls = []

    def method(codec, held_out, n):
        calls.append(n)
        return proteins.Generated(codec.stored[:n], -1.5)

    class Codec:
        stored = coupled(6)

    monkeypatch.setitem(proteins.METHODS, "made here", method)
    first = proteins.made("made here", Codec, coupled(4, 1), 3, tmp_path / "kept")
    second = proteins.made("made here", Codec, coupled(4, 1), 3, tmp_path / "kept")
    np.testing.assert_array_equal(first.codes, second.codes)
    assert (calls, second.log_likelihood) == ([3], -1.5)
    proteins.made("made here", Codec, coupled(4, 2), 3, tmp_path / "kept")  # another split
    proteins.made("made here", Codec, coupled(4, 1), 3, None)
    assert calls == [3, 3, 3]


def test_measures_of_true_sequences_are_those_of_one_set():
    pytest.importorskip("pyhmmer")
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((24, 30)) < 0.7, np.arange(30) % 20, rng.integers(0, 20, (24, 30))).astype(np.uint8)
    codes[::3, 4:6] = 20
    found = protein_measures.evaluated(codes[:11], np.nan, codes[:11], codes[11:], np.empty(0, dtype=np.intp))
    assert found.near_copies == 1
    assert 0 < found.score_ks < 0.6
    assert 0 < found.accuracy < 1
    gaps = np.array([[20, 20, 1, 20], [1, 1, 1, 1]])
    assert protein_measures.mean_run(gaps) == 1.5


def test_the_floor_compares_three_parts_of_a_family_that_do_not_overlap(monkeypatch):
    """Each sequence is named by its first three letters; KS is replaced by what tells whether sets overlap."""
    codes = np.random.default_rng(0).integers(0, 20, (31, 8)).astype(np.uint8)
    codes[:, :3] = np.stack([np.arange(31) // 20, np.arange(31) % 20, np.arange(31) % 7], axis=1)

    def shared(new, held_out):
        assert len(new) == len(held_out) == 10
        return sum(any((a == b).all() for b in held_out) for a in new) / len(new)

    monkeypatch.setattr(protein_floor, "cross_fitted_ks", shared)
    monkeypatch.setattr(protein_floor, "SETS", 2)
    found = protein_floor.measure(codes, 0)
    assert list(found) == ["new", "stored", "independent"]
    assert all(one.score_ks == 0 and 0 <= one.accuracy <= 1 for one in found.values())
    assert protein_floor.measure(codes, 1)["independent"] != found["independent"]
    assert protein_floor.reached(codes[:20], codes[:10]).score_ks == 0.5  # one of two sets is the held-out part
