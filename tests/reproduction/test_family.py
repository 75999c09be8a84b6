"""Encoding, decoding and evaluation of a family, compared with explicit sums."""

import math

import numpy as np
import pytest

from paper import family
from paper.family import GAP
from paper.sources import DataError


@pytest.fixture
def read(folder):
    return family.read_family(folder / "pfam" / "PF00076_seed.sto")


def test_reading_drops_sparse_columns_and_rows(tmp_path):
    """Column 3 has 60 % gaps; without it the last row has two gaps of four and is dropped."""
    rows = ["ACDE.", "ACDEF", "AC.EF", "AC.EF", "..." + "E" + "F"]
    text = "# STOCKHOLM 1.0\n" + "".join(f"s{i} {row}\n" for i, row in enumerate(rows)) + "//\n"
    (tmp_path / "x.sto").write_text(text)
    alignment = family.read_family(tmp_path / "x.sto").alignment
    assert alignment.shape == (4, 4)
    np.testing.assert_array_equal(alignment[0], [0, 1, 3, GAP])


def test_only_restored_norms_decode_to_the_stored_sequences(read):
    present = read.alignment != GAP
    restored = read.decode(read.bank.patterns, read.norms)
    published = read.decode(read.bank.patterns)
    assert (restored == read.alignment)[present].mean() > 0.97  # PCA keeps 95 % of the variance
    assert (published == read.alignment)[present].mean() < 0.95 * (restored == read.alignment)[present].mean()


def test_identity_counts_a_stored_gap_as_a_mismatch():
    stored = np.array([[0, 1, 2, GAP], [5, 5, 5, 5]])
    np.testing.assert_allclose(family.identity(np.array([[0, 1, 2, GAP], [5, 5, 5, 6]]), stored), [0.75, 0.75])


def test_divergences_by_hand():
    stored = np.array([[0, 0], [0, 1], [1, GAP]])
    made = np.array([[0, 0], [1, 0]])
    composition = 0.6 * math.log(0.6 / 0.75) + 0.4 * math.log(0.4 / 0.25)
    assert family.composition_divergence(stored, made) == pytest.approx(composition, abs=1e-6)
    first = 2 / 3 * math.log((2 / 3) / 0.5) + 1 / 3 * math.log((1 / 3) / 0.5)
    second = 0.5 * math.log(0.5) + 0.5 * math.log(0.5 / 1e-12)
    assert family.position_divergence(stored, made, 1e-12) == pytest.approx((first + second) / 2, abs=1e-6)
    assert family.composition_divergence(stored, stored) == pytest.approx(0)


def test_pair_measures_detect_couplings():
    rng = np.random.default_rng(0)
    base = rng.integers(4, size=(4000, 1))
    coupled = np.where(rng.random((4000, 6)) < 0.7, base, rng.integers(4, size=(4000, 6)))
    first, second = coupled[:2000], coupled[2000:]
    shuffled = np.stack([rng.permutation(column) for column in second.T], axis=1)
    assert family.connected_r(first, second) > 0.95
    assert abs(family.connected_r(first, shuffled)) < 0.2
    uneven = first.copy()
    uneven[:, 3:] = rng.integers(4, size=(2000, 3))
    more = second.copy()
    more[:, 3:] = rng.integers(4, size=(2000, 3))
    assert family.mutual_information_r(uneven, more) > 0.95


def test_independent_sites_have_the_frequencies_and_nothing_else(read):
    made = family.independent_sites(read.alignment, 5000, 0)
    assert (made != GAP).all()
    assert family.position_divergence(read.alignment, made) < 0.02
    assert abs(family.connected_r(read.alignment, made)) < 0.1


def test_the_profile_accepts_its_family(read, folder):
    profile = folder / "pfam" / "PF00076.hmm"
    share, median = family.profile_test(read.alignment, profile)
    assert share > 0.9
    assert median < 1e-3
    noise = np.random.default_rng(0).integers(20, size=(20, read.length))
    assert family.profile_test(noise, profile)[0] < 0.2


@pytest.mark.parametrize("content", ["", "not an alignment", "# STOCKHOLM 1.0\n//\n"])
def test_a_wrong_alignment_is_one_line(tmp_path, content):
    (tmp_path / "x.sto").write_text(content)
    with pytest.raises(DataError, match="is not a Stockholm alignment"):
        family.read_family(tmp_path / "x.sto")


def test_a_wrong_profile_is_one_line(tmp_path, read):
    (tmp_path / "x.hmm").write_text("nonsense")
    with pytest.raises(DataError, match="is not a profile HMM"):
        family.profile_test(read.alignment, tmp_path / "x.hmm")
