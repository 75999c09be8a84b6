"""Protein families: files of each format, cleaning, round trips, fixed residues, measures against brute force."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from made_items import as_text, family, write_stockholm
from pyhmmer.easel import MSAFile

from stochattn import pipeline
from stochattn.data.legacy import Batch, InputError, Settings
from stochattn.data.proteins import ProteinCodec, sequences
from stochattn.data.proteins.alignment import read_alignment
from stochattn.data.proteins.measures import near_copies
from stochattn.data.proteins.profiles import build_profile, score
from stochattn.data.proteins.sequences import GAP, LETTERS
from stochattn.data.legacy_registry import load, read

CODES = family()


def codec(**options):
    return ProteinCodec.fit(CODES, [f"s{i}" for i in range(len(CODES))], **options)


def write_with_easel(path, codes, format):
    from pyhmmer.easel import TextMSA, TextSequence

    rows = [TextSequence(name=f"s{i}".encode(), sequence=row) for i, row in enumerate(as_text(codes))]
    with path.open("wb") as file:
        TextMSA(name=b"made", sequences=rows).write(file, format)
    return path


@pytest.mark.parametrize("format", ["stockholm", "afa", "a2m", "clustal", "psiblast"])
def test_formats_give_the_same_alignment(tmp_path, format):
    codes = CODES.copy()
    codes[0] %= GAP  # Easel writes as inserts what its first sequence lacks
    alignment = read_alignment(write_with_easel(tmp_path / f"family.{format}", codes, format))
    np.testing.assert_array_equal(alignment.codes, codes)
    assert not alignment.inserts.any()


def test_insert_columns_are_left_out_and_lower_case_alone_means_nothing(tmp_path):
    path = tmp_path / "a.a2m"
    path.write_text(">a\nACDEfgHIK\n>b\nACD-HI-\n>c\nACDEaHIK\n")
    alignment = read_alignment(path)
    np.testing.assert_array_equal(np.flatnonzero(alignment.inserts), [4, 5])
    path = tmp_path / "lower.fa"
    path.write_text(">a\nacdefghik\n>b\nacdefghil\n")
    assert not read_alignment(path).inserts.any()


def test_sparse_columns_and_sequences_are_dropped_and_counted(tmp_path):
    codes = CODES.copy()
    codes[:16, 3] = GAP  # 16 of 30: more than half
    codes[0, 5:14] = GAP
    made = ProteinCodec.read(write_stockholm(tmp_path / "x.sto", codes))
    assert 3 not in made.columns
    assert "seq0" not in made.ids
    assert any("1 columns" in note for note in made.notes)
    assert any("1 sequences" in note for note in made.notes)
    whole = ProteinCodec.read(tmp_path / "x.sto", max_column_gaps=1.0, max_sequence_gaps=1.0)
    np.testing.assert_array_equal(whole.stored, codes)


def test_other_letters_are_mapped_with_a_note(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text(">a\nBZJUOXACDF\n>b\nDELCKAACDE\n>c\nDELCKAACDY\n")
    alignment = read_alignment(path)
    assert as_text(alignment.codes[:1]) == ["DELCK-ACDF"]
    assert "6 letters" in alignment.notes[0]


@pytest.mark.parametrize("options", [{}, {"gaps": "symbol"}, {"variance": 1.0}, {"whiten": True}, {"norm": "whole"}])
def test_stored_sequences_come_back(options):
    made = codec(**{"variance": 1.0, **options})
    np.testing.assert_array_equal(made.decode(made.encode(CODES)), CODES)
    assert made.loss().items == 1


def test_the_loss_of_cut_components_is_measured():
    made = codec(variance=0.3)
    back = made.decode(made.coordinates.stored)
    assert made.loss().values == pytest.approx((back == CODES).mean())
    assert made.loss().values < 1
    assert made.loss().variance < 0.5


def test_the_published_decode_collapses_towards_the_consensus():
    made = codec(norm="paper", variance=1.0)
    _, identity = sequences.nearest_identity(made.decode(made.coordinates.stored), CODES)
    assert identity.mean() < 0.95
    assert made.loss().items < 0.5


def test_a_saved_codec_is_the_same(tmp_path):
    made = codec(temperature=0.5)
    made.save(tmp_path / "c.npz")
    again = load(tmp_path / "c.npz")
    rows = made.coordinates.stored + 0.1
    np.testing.assert_array_equal(again.decode(rows, 20.0), made.decode(rows, 20.0))
    assert again.ids == made.ids
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="no codec"):
        load(tmp_path / "bad.npz")


def test_decoding_by_drawing_follows_the_softmax():
    # One position of one row, 20,000 draws: frequencies within 5 standard errors of softmax(channels / T).
    made = codec(temperature=0.3, variance=1.0)
    z = made.coordinates.stored[:1] * made.factors()[:1]
    channels = np.append(made.coordinates.features(z)[0, :20], 0.0)
    channels[20] = 1 - channels[:20].sum()
    expected = np.exp(channels / 0.3) / np.exp(channels / 0.3).sum()
    drawn = made.items(np.repeat(z, 20_000, 0), np.zeros(20_000, int), np.random.default_rng(0))[:, 0]
    share = np.bincount(drawn, minlength=21) / 20_000
    assert np.all(np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000) + 1e-9)


def test_fixed_residues_come_back_and_the_rest_follows():
    made = codec(variance=1.0)
    letter = LETTERS[CODES[CODES[:, 6] != GAP, 6][0]]
    planned = pipeline.plan(made, beta=20.0, fix=[f"7={letter}", "10=-"])
    items = np.concatenate([batch.items for batch in pipeline.batches(planned, 500, 0)])
    assert (items[:, 6] == list(LETTERS).index(letter)).all()
    assert (items[:, 9] == GAP).all()
    assert len(np.unique(items, axis=0)) > 100


def test_fixed_residues_hold_when_residues_are_drawn():
    made = codec(temperature=1.0)
    letter = LETTERS[CODES[CODES[:, 6] != GAP, 6][0]]
    items = np.concatenate(
        [b.items for b in pipeline.batches(pipeline.plan(made, beta=20.0, fix=[f"7={letter}"]), 200, 0)]
    )
    assert (items[:, 6] == list(LETTERS).index(letter)).all()


def test_several_fixed_residues_leave_room_for_new_sequences():
    made = codec()
    present = [i for i in range(24) if CODES[0, i] != GAP][:6]
    fixes = [f"{i + 1}={LETTERS[CODES[0, i]]}" for i in present]
    plan = pipeline.plan(made, beta=10.0, fix=fixes)
    items = np.concatenate([batch.items for batch in pipeline.batches(plan, 300, 0)])
    assert (items[:, present] == CODES[0, present]).all()
    assert len(np.unique(items, axis=0)) > 250
    assert (items == CODES[0]).all(1).mean() < 0.1
    with pytest.raises(InputError, match="is fixed to"):
        made.observe(["7=A", "7=-"] if CODES[0, 6] == 0 else [f"7={LETTERS[CODES[0, 6]]}", "7=-"])


@pytest.mark.parametrize(
    ("fix", "said"),
    [("x=W", "must name a column"), ("0=A", "columns 1 to 24"), ("99=A", "columns 1 to 24"), ("1=WW", "must name")],
)
def test_impossible_fixes_are_refused(fix, said):
    with pytest.raises(InputError, match=said):
        codec().observe([fix])


def test_residues_never_seen_in_a_column_are_refused():
    unseen = next(letter for code, letter in enumerate(LETTERS) if code not in CODES[:, 0])
    with pytest.raises(InputError, match="no stored sequence has"):
        codec().observe([f"1={unseen}"])
    with pytest.raises(InputError, match="was dropped"):
        ProteinCodec.fit(CODES[:, 1:], codec().ids, columns=np.arange(1, 24), width=24).observe(["1=A"])


@pytest.mark.parametrize("format", ["fasta", "stockholm"])
def test_files_hold_the_original_columns_and_how_they_were_made(tmp_path, format):
    made = ProteinCodec.fit(CODES[:, 2:], codec().ids, columns=np.arange(2, 24), width=26)
    stream = io.BytesIO()
    writer = made.writer(stream, format, Settings(8.0, 3, "given", "exact", "family.sto"))
    extra = {"identity": np.array([0.5, 0.25])}
    writer.write(Batch(10, CODES[:2, 2:], np.array([4, 7]), np.zeros(2), extra, np.array([0, 0])))
    writer.close()
    path = tmp_path / "out"
    path.write_bytes(stream.getvalue())
    np.testing.assert_array_equal(made.read_new(path), CODES[:2, 2:])
    with MSAFile(path) as file:
        content = file.read()
    assert list(content.names) == ["new-11", "new-12"]
    assert {len(row) for row in content.alignment} == {26}
    text = stream.getvalue().decode()
    for part in ("beta=8 ", "seed=3 ", "version=", "nearest=s4 identity=0.500", "nearest=s7 identity=0.250"):
        assert part in text
    with pytest.raises(InputError, match="has 26 columns, and the stored alignment 24"):
        codec().read_new(path)


def test_identity_is_that_of_a_plain_loop():
    new, stored = family(6, seed=1), CODES[:5]
    index, identity = sequences.nearest_identity(new, stored)
    for i, row in enumerate(new):
        values = []
        for other in stored:
            either = (row != GAP) | (other != GAP)
            values.append(((row == other) & (row != GAP)).sum() / either.sum())
        assert identity[i] == pytest.approx(max(values), abs=1e-6)
        assert values[index[i]] == pytest.approx(max(values))


def test_diversity_is_that_of_a_plain_loop():
    pairs = [(CODES[i] != CODES[j]).mean() for i in range(8) for j in range(i)]
    assert sequences.pairwise_diversity(CODES[:8]) == pytest.approx(np.mean(pairs))


def test_divergences_of_known_frequencies():
    stored = np.array([[0, 1], [0, 1], [1, 1], [1, GAP]], dtype=np.uint8)
    new = np.array([[0, 1], [1, 1], [1, 1], [1, 1]], dtype=np.uint8)
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(sequences.position_divergences(stored, new), [expected, 0], atol=1e-8)
    p, q = np.array([2, 5]) / 7, np.array([1, 7]) / 8
    assert sequences.composition_divergence(stored, new) == pytest.approx((p * np.log(p / q)).sum(), abs=1e-8)


def test_pair_correlations_know_families_from_independent_sites():
    rng = np.random.default_rng(0)
    again = CODES[rng.integers(0, len(CODES), 400)]
    independent = np.stack([rng.permutation(column) for column in again.T], axis=1)
    assert sequences.connected_r(CODES, again) > 0.9
    assert abs(sequences.connected_r(CODES, independent)) < 0.2


def test_near_copies_are_above_all_but_the_closest_stored_pairs():
    own = [
        max(((CODES[i] == CODES[j]) & (CODES[i] != GAP)).sum() / ((CODES[i] != GAP) | (CODES[j] != GAP)).sum()
            for j in range(len(CODES)) if j != i)
        for i in range(len(CODES))
    ]  # fmt: skip
    limit = np.quantile(own, 0.99)
    identity = np.array([limit - 0.01, limit + 0.01, limit + 0.02, limit + 0.05])
    assert near_copies(identity, CODES) == 0.75


def test_e_values_are_those_of_a_database_of_n():
    profile = build_profile(CODES)
    few, many = score(CODES[:5], profile, 5), score(CODES[:5], profile, 500)
    np.testing.assert_allclose(many.evalues, 100 * few.evalues, rtol=1e-6)


def test_signs_that_are_no_letters_are_noted(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text(">a\nAC1DEFGHIK\n>b\nACWDEFGHIK\n")
    assert "1 signs that are no letters" in read_alignment(path).notes[0]


def test_profiles_pass_the_family_and_not_noise():
    profile = build_profile(CODES)
    assert score(CODES, profile, 30).passed > 0.9
    noise = np.random.default_rng(0).integers(0, 20, (30, 24)).astype(np.uint8)
    bits, evalues = score(noise, profile, 30)
    assert (evalues < 0.01).mean() < 0.1
    assert score(np.full((2, 24), GAP, dtype=np.uint8), profile, 2).passed == 0
    assert len(bits) == 30


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("hello\n", "no alignment in a format"),
        (">a\nACDEF\n>b\nACD\n", "must be aligned"),
        (">a\nACGTACGTACGT\n>b\nACGTACGTACGA\n", "looks like DNA"),
        (">a\n-----\n>b\n-----\n", "only gaps"),
        (">a\nACDEFGHIKL\n", "at least two sequences"),
        ("# STOCKHOLM 1.0\ns1 ACDEFG\ns2 ACD\n//\n", "cannot be read as an alignment"),
        ("\x00\x01\x02\x93" * 50, "no alignment in a format|cannot be read"),
    ],
)
def test_bad_files_give_one_line(tmp_path, content, said):
    path = tmp_path / "bad.fasta"
    path.write_text(content)
    with pytest.raises(InputError, match=said) as error:
        ProteinCodec.read(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.sto")
    with pytest.raises(InputError, match="is a folder"):
        read_alignment(tmp_path)


@pytest.mark.published
@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the real alignment: set STOCHATTN_DATA")
def test_the_published_family():
    path = Path(os.environ["STOCHATTN_DATA"]) / "pfam" / "PF00076_seed.sto"
    published = read(path, norm="paper")
    plain = read(path)
    drawn = {}
    for name, made, n in (("paper", published, 150), ("ours", plain, 150), ("many", plain, 5000)):
        planned = pipeline.plan(made, beta=8.0)
        items = np.concatenate([batch.items for batch in pipeline.batches(planned, n, 0)])
        drawn[name] = {measure.name: measure.value for measure in made.compare(items).measures}
    assert drawn["paper"]["identity to nearest"] == pytest.approx(0.538, abs=0.02)
    assert drawn["paper"]["composition divergence"] == pytest.approx(0.060, abs=0.03)
    assert drawn["ours"]["composition divergence"] <= 0.01
    assert drawn["ours"]["position divergence"] <= 0.8
    assert drawn["ours"]["profile pass"] == 1
    assert drawn["ours"]["pairwise diversity"] >= 0.68
    assert drawn["many"]["pair correlation r"] >= 0.8  # 150 sequences are too few to estimate 10⁶ pairs
    assert plain.loss().items == 1
