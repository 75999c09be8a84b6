"""Protein families: files of each format, gaps, embeddings, conditions, writing, measures against brute force."""

import dataclasses
import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from pyhmmer.easel import MSAFile

import stochattn as sa
from made_items import as_text, family, write_fasta, write_stockholm
from stochattn.kinds import Batch, InputError, Settings
from stochattn.kinds.display import GalleryItems
from stochattn.kinds.options import option_fields
from stochattn.kinds.proteins import sequences
from stochattn.kinds.proteins.codec import ProteinCodec
from stochattn.kinds.proteins.description import ProteinHopfieldOptions, ProteinOptions
from stochattn.kinds.proteins.generator.sequences import GAP, nearest_identity, one_hot
from stochattn.kinds.proteins.kind import KIND, ProteinEmbedding
from stochattn.kinds.proteins.reading import (
    LETTERS,
    build_profile,
    parse_profile,
    read_alignment,
    read_profile,
    score,
)

CODES = family()
TEXTS = as_text(CODES)
LETTER = str(LETTERS[CODES[CODES[:, 6] != GAP, 6][0]])
"""A letter of column 7."""


def codec(codes=CODES, columns=None, width=None):
    columns = np.arange(codes.shape[1]) if columns is None else columns
    return ProteinCodec(codes, tuple(f"s{i}" for i in range(len(codes))), columns, width or codes.shape[1])


def whole(**options):
    """A Synthesizer of all the sequences, gaps included."""
    return sa.fit(TEXTS, max_column_gaps=1.0, max_sequence_gaps=1.0, **options)


def embedding(codes=CODES, **options):
    return ProteinEmbedding.fit(codes, np.ones(codes.shape[1], dtype=bool), ProteinHopfieldOptions(**options))


def decoded(made):
    """The stored sequences, embedded and decoded with their norms."""
    z = made.coordinates.stored * made.coordinates.factors()
    return made.arrays(z, np.arange(len(z)), np.random.default_rng(0))


def write_with_easel(path, codes, format):
    from pyhmmer.easel import TextMSA, TextSequence

    rows = [TextSequence(name=f"s{i}".encode(), sequence=row) for i, row in enumerate(as_text(codes))]
    with path.open("wb") as file:
        TextMSA(name=b"made", sequences=rows).write(file, format)
    return path


# Reading


@pytest.mark.parametrize("format", ["stockholm", "afa", "a2m", "clustal", "psiblast"])
def test_formats_give_the_same_alignment(tmp_path, format):
    codes = CODES.copy()
    codes[0] %= GAP  # Easel writes columns that its first sequence lacks as inserts
    alignment = read_alignment(write_with_easel(tmp_path / f"family.{format}", codes, format))
    np.testing.assert_array_equal(alignment.codes, codes)
    assert not alignment.inserts.any()


def test_fasta_may_begin_with_a_byte_order_mark(tmp_path):
    plain, marked = tmp_path / "plain.fa", tmp_path / "marked.fa"
    plain.write_text(">a\nACDE\n>b\nACDF\n", encoding="utf-8")
    marked.write_text(">a\nACDE\n>b\nACDF\n", encoding="utf-8-sig")
    np.testing.assert_array_equal(read_alignment(marked).codes, read_alignment(plain).codes)
    assert read_alignment(marked).names == ("a", "b")


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        ("\N{NO-BREAK SPACE}".encode(), "no-break space"),
        ("\N{EN DASH}".encode(), "en dash"),
        ("\x80".encode(), r"U\+0080"),
        (b"\xff", "replacement character"),
    ],
)
def test_characters_beyond_ascii_are_named_with_their_line(tmp_path, symbol, words):
    path = tmp_path / "x.fa"
    path.write_bytes(">a\nACDE\n>é\nAC".encode() + symbol + b"E\n")
    with pytest.raises(InputError, match=rf"x\.fa, line 4: .* \({words}\) is not a residue"):
        read_alignment(path)


def test_insert_columns_are_dropped_and_lower_case_alone_is_ignored(tmp_path):
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
    path = write_stockholm(tmp_path / "x.sto", codes)
    made = sa.fit(path).codec
    assert made.insertions == (3,)
    assert "seq0" not in made.ids
    assert any("1 column with more than 50% gaps was kept as insertions" in note for note in made.notes)
    assert any("1 sequence with" in note for note in made.notes)
    complete = sa.fit(path, max_column_gaps=1.0, max_sequence_gaps=1.0).codec
    np.testing.assert_array_equal(complete.stored, codes)
    with pytest.raises(InputError, match=r"max_column_gaps must be a share between 0 and 1; got 1\.5"):
        sa.fit(path, max_column_gaps=1.5)


def test_other_letters_are_mapped_with_a_note(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text(">a\nBZJUOXACDF\n>b\nDELCKAACDE\n>c\nDELCKAACDY\n")
    alignment = read_alignment(path)
    assert as_text(alignment.codes[:1]) == ["DELCK-ACDF"]
    assert "6 letters" in alignment.notes[0]


def test_characters_that_are_not_letters_are_noted(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text(">a\nAC1DEFGHIK\n>b\nACWDEFGHIK\n")
    assert "1 character that is not a letter was read as a gap" in read_alignment(path).notes[0]


SEVERAL = """# STOCKHOLM 1.0
#=GF ID   first
#=GF AC   PF00001.2
s1 ACDEFGHIKL
s2 ACDEFGHIKV
//
# STOCKHOLM 1.0
#=GF ID second
t1 ACDEFW
t2 ACDEFV
t3 ACDEFW
//
# STOCKHOLM 1.0
u1 ACDWYY
u2 ACDVWW
//
"""


@pytest.mark.parametrize(
    ("which", "ids"),
    [
        (None, ("s1", "s2")),
        ("first", ("s1", "s2")),
        ("PF00001", ("s1", "s2")),
        ("PF00001.2", ("s1", "s2")),
        ("second", ("t1", "t2", "t3")),
        (2, ("t1", "t2", "t3")),
        ("3", ("u1", "u2")),
    ],
)
def test_an_alignment_is_chosen_from_several_in_a_file(tmp_path, which, ids):
    (tmp_path / "a.sto").write_text(SEVERAL)
    codec = sa.fit(tmp_path / "a.sto", alignment=which).codec
    assert codec.ids == ids
    said = "the file holds 3 alignments, and only the first was read: 1 (first, PF00001.2), 2 (second), 3;"
    assert [note.startswith(said) for note in codec.notes] == ([True] if which is None else [])


def test_an_alignment_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.sto").write_text(SEVERAL)
    for which in ("third", "4", "0"):
        with pytest.raises(InputError, match=rf"a\.sto: there is no alignment '{which}'; choose one of 1 \(first"):
            sa.fit(tmp_path / "a.sto", alignment=which)
    (tmp_path / "a.fa").write_text(">a\nACDEFW\n>b\nACDEFY\n")
    assert sa.fit(tmp_path / "a.fa", alignment="1").codec.K == 2
    with pytest.raises(InputError, match="no alignment 'x'; choose one of 1"):
        sa.fit(tmp_path / "a.fa", alignment="x")
    with pytest.raises(InputError, match="alignment='x' chooses one of a file"):
        sa.fit(["ACDEFW", "ACDEFY"], alignment="x")


def test_files_and_texts_are_recognised(tmp_path):
    assert KIND.recognizes(tmp_path / "family.STO")
    assert not KIND.recognizes(tmp_path / "family.csv")
    (tmp_path / "folder.sto").mkdir()
    assert not KIND.recognizes(tmp_path / "folder.sto")
    assert KIND.accepts(TEXTS)
    assert KIND.accepts(dict(zip("ab", TEXTS[:2], strict=True)))
    assert not any(KIND.accepts(data) for data in ([], [1, 2], np.zeros((3, 4)), "ACDE", {"a": [1, 2]}))
    assert sa.fit({f"name {i}": text for i, text in enumerate(TEXTS)}).codec.ids[:2] == ("name 0", "name 1")
    assert sa.fit(TEXTS).codec.ids[:2] == ("1", "2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("hello\n", "not an alignment in a known format"),
        (">a\nACDEF\n>b\nACD\n", "must be aligned"),
        (">a\nACGTACGTACGT\n>b\nACGUACGTACGA\n", "mixes DNA and RNA"),
        (">a\n-----\n>b\n-----\n", "only gaps"),
        (">a\nACDEFGHIKL\n", "at least two sequences"),
        (">a\nACDEFGHIKL\n>b\nACDEFGHIKL\n", "are equal"),
        ("# STOCKHOLM 1.0\ns1 ACDEFG\ns2 ACD\n//\n", "cannot be read as an alignment"),
        ("\x00\x01\x02\x93" * 50, "is a binary file"),
    ],
)
def test_bad_files_give_one_line(tmp_path, content, message):
    path = tmp_path / "bad.fasta"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as error:
        sa.fit(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["MKV", "MK"], "lengths from 2 to 3"),
        (["", ""], "are empty"),
        (["MKVAAA", "MKVAAA"], "are equal"),
        (["MKVAAA"], "at least two sequences are needed, and there is one; add others"),
        (["MKVAAA", "MKVA--"], "at least two sequences are needed, and 1 of 2 have at most 30% gaps; raise"),
    ],
)
def test_bad_texts_are_an_error(texts, message):
    with pytest.raises(InputError, match=message):
        sa.fit(texts)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_alignment(tmp_path / "none.sto")
    with pytest.raises(InputError, match="is a folder"):
        read_alignment(tmp_path)


def test_without_pyhmmer_files_are_an_error_and_texts_still_work(tmp_path, monkeypatch):
    path = write_stockholm(tmp_path / "x.sto", CODES)
    profile = build_profile(CODES)
    monkeypatch.setitem(sys.modules, "pyhmmer", None)  # importing it now raises ImportError
    message = "protein alignments need pyhmmer, which has no build for Windows: use Linux, macOS or WSL."
    for use in (
        lambda: sa.fit(path),
        lambda: build_profile(CODES),
        lambda: read_profile(tmp_path / "x.hmm"),
        lambda: score(CODES, profile, 1),
    ):
        with pytest.raises(InputError) as error:
            use()
        assert str(error.value) == message
    assert len(sa.fit(TEXTS).sample(3, rng=0)) == 3


# Codec


def test_codecs_are_immutable_and_decode_exactly():
    made = codec()
    np.testing.assert_array_equal(made.decode(made.encode(CODES)), CODES)
    np.testing.assert_array_equal(made.encode(made.to_user(CODES)), CODES)
    np.testing.assert_array_equal(made.features(TEXTS), one_hot(CODES))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.width = 3


def test_no_sequences_have_no_codes():
    assert codec().encode([]).shape == (0,)
    assert codec().encode(CODES[:0]).shape == (0, CODES.shape[1])


def test_texts_are_in_the_columns_of_the_file():
    kept = codec(CODES[:, 2:], np.arange(2, 24), 26)
    texts = kept.to_user(CODES[:, 2:])
    assert texts[0] == "--" + TEXTS[0][2:] + "--"
    np.testing.assert_array_equal(kept.encode(texts), CODES[:, 2:])
    np.testing.assert_array_equal(kept.encode([text[2:24] for text in texts]), CODES[:, 2:])


@pytest.mark.parametrize("options", [{}, {"score": True}, {"generator": "hopfield", "decode_temperature": 0.5}])
def test_a_saved_synthesizer_makes_the_same_draws(tmp_path, options):
    made = whole(**options).condition({7: LETTER})
    made.save(tmp_path / "family.synth")
    again = sa.load(tmp_path / "family.synth")
    assert again.sample(20, rng=3) == made.sample(20, rng=3)
    assert again.codec.ids == made.codec.ids
    (first,), (second,) = (list(one.batches(5, 0)) for one in (made, again))
    for name, values in first.extra.items():
        np.testing.assert_array_equal(values, second.extra[name])


def test_fewer_samples_are_the_first_of_more():
    made = sa.fit(TEXTS)
    assert made.sample(5000, rng=2)[:4] == made.sample(4, rng=2)


def test_one_selected_sequence_needs_beta():
    with pytest.raises(InputError, match="compares at least two sequences, and one is selected"):
        sa.fit(TEXTS).subset([3]).sample(2, rng=0)
    assert len(sa.fit(TEXTS, beta=20.0).subset([3]).sample(2, rng=0)) == 2


# Embedding


@pytest.mark.parametrize("options", [{}, {"gaps": "symbol"}, {"whiten": True}, {"norm": "whole"}])
def test_embedded_sequences_are_decoded_exactly(options):
    made = embedding(**{"variance": 1.0, **options})
    np.testing.assert_array_equal(decoded(made), CODES)
    rows = made.coordinates.rows(codec().features(CODES))
    np.testing.assert_allclose(rows, made.coordinates.stored, atol=1e-9)


def test_gaps_as_a_symbol_are_components_of_21_channels():
    channels = one_hot(CODES).reshape(len(CODES), -1, 20)
    channels = np.concatenate([channels, 1 - channels.sum(-1, keepdims=True)], axis=-1).reshape(len(CODES), -1)
    centred = channels - channels.mean(0)
    made = embedding(gaps="symbol", variance=1.0, norm="whole")
    gram = made.coordinates.stored @ made.coordinates.stored.T
    np.testing.assert_allclose(gram, centred @ centred.T, atol=1e-9)
    with pytest.raises(ValueError, match="pass variance as a number"):
        embedding(gaps="symbol", variance=None)
    with pytest.raises(ValueError, match="gaps must be one of 'zeros', 'symbol'; got 'dots'"):
        embedding(gaps="dots")


def test_fewer_components_lose_residues():
    made = embedding(variance=0.3)
    assert (decoded(made) == CODES).mean() < 1
    assert made.coordinates.variance < 0.5


def test_the_published_decoder_moves_towards_the_consensus():
    made = decoded(embedding(norm="paper", variance=1.0))
    _, identity = nearest_identity(made, CODES)
    assert identity.mean() < 0.95
    assert (made == CODES).all(1).mean() < 0.5


def test_decoding_by_drawing_follows_the_softmax():
    # One position of one row, 20,000 draws: frequencies within 5 standard errors of softmax(channels / T).
    made = embedding(decode_temperature=0.3, variance=1.0)
    z = made.coordinates.stored[:1] * made.coordinates.factors()[:1]
    channels = np.append(made.coordinates.features(z)[0, :20], 0.0)
    channels[20] = 1 - channels[:20].sum()
    expected = np.exp(channels / 0.3) / np.exp(channels / 0.3).sum()
    drawn = made.arrays(np.repeat(z, 20_000, 0), np.zeros(20_000, int), np.random.default_rng(0))[:, 0]
    share = np.bincount(drawn, minlength=21) / 20_000
    assert np.all(np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000) + 1e-9)
    with pytest.raises(ValueError, match="decode_temperature must be a positive"):
        embedding(decode_temperature=0.0)


def test_drawn_residues_differ_by_seed():
    cold = whole(decode_temperature=1.0, beta=1e12).subset([1])  # one memory without noise: only decoding differs
    assert cold.sample(8, rng=0) != cold.sample(8, rng=1)
    assert len(set(cold.sample(8, rng=0))) > 1


# Conditions


@pytest.mark.parametrize("options", [{}, {"beta": 20.0, "variance": 1.0}])
def test_conditioned_residues_are_exact_and_others_vary(options):
    made = whole(**options).condition({7: LETTER, "10": "-"})
    items = made.sample_items(500, 0)
    assert (items[:, 6] == list(LETTERS).index(LETTER)).all()
    assert (items[:, 9] == GAP).all()
    assert len(np.unique(items, axis=0)) > 100


def test_conditioned_residues_are_exact_with_a_decode_temperature():
    items = whole(decode_temperature=1.0, beta=20.0).condition({7: LETTER.lower()}).sample_items(200, 0)
    assert (items[:, 6] == list(LETTERS).index(LETTER)).all()


def test_several_conditioned_residues_leave_room_for_new_sequences():
    present = [i for i in range(24) if CODES[0, i] != GAP][:6]
    made = whole(beta=10.0).condition({i + 1: str(LETTERS[CODES[0, i]]) for i in present})
    items = made.sample_items(300, 0)
    assert (items[:, present] == CODES[0, present]).all()
    assert len(np.unique(items, axis=0)) > 250
    assert (items == CODES[0]).all(1).mean() < 0.1


def test_conditions_name_columns_of_the_file():
    kept = codec(CODES[:, 1:], np.arange(1, 24), 24)
    conditioned = kept.condition({7: LETTER, 10: "-"})
    assert conditioned.codec is kept
    assert conditioned.observation == {5: list(LETTERS).index(LETTER), 8: GAP}
    with pytest.raises(InputError, match=r"condition 1=A: no stored sequence has a residue in this column"):
        kept.condition({1: "A"})


@pytest.mark.parametrize(
    ("column", "letter", "message"),
    [
        ("x", "W", "must name a column and a residue"),
        (True, "W", "must name a column"),
        (1, "WW", "must name a column"),
        (1, 5, "must name a column"),
        (0, "A", "columns 1 to 24"),
        ("99", "A", "columns 1 to 24"),
    ],
)
def test_impossible_conditions_are_an_error(column, letter, message):
    with pytest.raises(InputError, match=message):
        codec().condition({column: letter})


UNSEEN = next(str(letter) for code, letter in enumerate(LETTERS) if code not in CODES[:, 0])


def test_residues_never_seen_in_a_column_are_drawn_by_the_latent_law_with_a_note():
    assert codec().condition({1: UNSEEN}).notes == (f"no stored sequence has {UNSEEN} in column 1: draws extrapolate.",)
    assert not codec().condition({7: LETTER}).notes
    synth = whole().condition({1: UNSEEN})
    assert all(text[0] == UNSEEN for text in synth.sample(20, rng=0))
    assert any("draws extrapolate" in note for note in synth.notes)


def test_residues_never_seen_in_a_column_are_refused_where_a_bank_cannot_have_them():
    with pytest.raises(InputError, match=r"no stored sequence has C in this column.*generator='latent'"):
        whole(generator="hopfield").condition({1: UNSEEN}).sample(1, rng=0)


def test_letters_beyond_the_alphabet_and_contradictions_are_an_error():
    with pytest.raises(InputError, match=r"the alphabet \(protein\) has no such letter. Choose one of A, C, "):
        codec().condition({1: "?"})
    with pytest.raises(InputError, match=f"conditioned on {LETTER!r} already"):
        codec().condition({7: LETTER, "7": "-"})
    with pytest.raises(InputError, match=f"conditioned on {LETTER!r} already"):
        codec().condition({7: LETTER, "7": _other_letter()})


def _other_letter():
    return str(LETTERS[next(c for c in CODES[:, 6] if c != GAP and LETTERS[c] != LETTER)])


def test_conditions_are_parsed():
    assert KIND.parse_condition(codec(), ["12=W", " 3 = - ", "12=w"]) == {12: "W", 3: "-"}
    for text in ("W", "x=W", "1=WW", "1=", "1.5=W"):
        with pytest.raises(InputError, match="must name a column and a residue, such as 12=W"):
            KIND.parse_condition(codec(), [text])
    with pytest.raises(InputError, match="column 7 is conditioned on 'A' already"):
        KIND.parse_condition(codec(), ["7=A", "7=-"])


# Writing


@pytest.mark.parametrize("format", KIND.formats, ids=lambda format: format.name)
@pytest.mark.parametrize(("beta", "how"), [(8.0, "beta=8 "), (None, "generator=latent ")])
def test_files_have_the_original_columns_and_settings(tmp_path, format, beta, how):
    made = codec(CODES[:, 2:], np.arange(2, 24), 26)
    stream = io.BytesIO()
    writer = KIND.writer(made, stream, format, Settings(3, "latent", "family.sto", beta))
    extra = {"identity": np.array([0.5, 0.25])}
    writer.write(Batch(10, CODES[:2, 2:], np.array([4, 7]), np.zeros(2), extra, np.array([0, 0])))
    writer.close()
    path = tmp_path / "out"
    path.write_bytes(stream.getvalue())
    np.testing.assert_array_equal(KIND.read_new(made, path), CODES[:2, 2:])
    with MSAFile(path) as file:
        content = file.read()
    assert list(content.names) == ["new-11", "new-12"]
    assert {len(row) for row in content.alignment} == {26}
    text = stream.getvalue().decode()
    for part in (how, "seed=3 ", "version=", "nearest=s4 identity=0.500", "nearest=s7 identity=0.250"):
        assert part in text
    with pytest.raises(InputError, match="has 26 columns, and the stored alignment 24"):
        KIND.read_new(codec(), path)


def test_headers_leave_out_the_nearest_sequence_where_identifiers_are_confidential(tmp_path):
    family = write_fasta(tmp_path / "family.fasta", CODES, [f"patient{i}" for i in range(len(CODES))])
    for nearest in (True, False):
        sa.fit(family, nearest=nearest).write(tmp_path / f"{nearest}.fasta", 5, rng=0)
    named, plain = ((tmp_path / f"{nearest}.fasta").read_text() for nearest in (True, False))
    assert "nearest=patient" in named
    assert "patient" not in plain
    assert re.sub(r" nearest=\S+", "", named) == plain
    assert "patient" not in (tmp_path / "False.fasta.json").read_text()
    sa.fit(family, nearest=False).save(tmp_path / "saved.synth")
    sa.load(tmp_path / "saved.synth").write(tmp_path / "again.fasta", 5, rng=0)
    assert (tmp_path / "again.fasta").read_text() == plain


# Measures


def test_identity_agrees_with_a_plain_loop():
    new, stored = family(6, seed=1), CODES[:5]
    index, identity = nearest_identity(new, stored)
    for i, row in enumerate(new):
        values = []
        for other in stored:
            either = (row != GAP) | (other != GAP)
            values.append(((row == other) & (row != GAP)).sum() / either.sum())
        assert identity[i] == pytest.approx(max(values), abs=1e-6)
        assert values[index[i]] == pytest.approx(max(values))


def test_diversity_agrees_with_a_plain_loop():
    pairs = [(CODES[i] != CODES[j]).mean() for i in range(8) for j in range(i)]
    assert sequences.pairwise_diversity(CODES[:8]) == pytest.approx(np.mean(pairs))
    assert sequences.pairwise_diversity(CODES[:2]) == pytest.approx((CODES[0] != CODES[1]).mean())
    assert np.isnan(sequences.pairwise_diversity(CODES[:1]))


def test_divergences_of_known_frequencies():
    stored = np.array([[0, 1], [0, 1], [1, 1], [1, GAP]], dtype=np.uint8)
    new = np.array([[0, 1], [1, 1], [1, 1], [1, 1]], dtype=np.uint8)
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(sequences.position_divergences(stored, new), [expected, 0], atol=1e-8)
    mostly_gaps = np.array([[0, 1], [0, GAP], [1, GAP], [1, GAP]], dtype=np.uint8)  # one residue is all of a position
    np.testing.assert_allclose(sequences.position_divergences(mostly_gaps, new), [expected, 0], atol=1e-8)
    p, q = np.array([2, 5]) / 7, np.array([1, 7]) / 8
    assert sequences.composition_divergence(stored, new) == pytest.approx((p * np.log(p / q)).sum(), abs=1e-8)


def test_pair_correlations_distinguish_families_from_independent_sites():
    rng = np.random.default_rng(0)
    again = CODES[rng.integers(0, len(CODES), 400)]
    independent = np.stack([rng.permutation(column) for column in again.T], axis=1)
    assert sequences.connected_r(CODES, again) > 0.9
    assert sequences.connected_r(CODES[:, :2], CODES[:, :2]) == pytest.approx(1)  # one pair of positions is enough
    assert abs(sequences.connected_r(CODES, independent)) < 0.2


def test_identities_are_counted_above_all_but_the_closest_stored_pairs():
    own = [
        max(((CODES[i] == CODES[j]) & (CODES[i] != GAP)).sum() / ((CODES[i] != GAP) | (CODES[j] != GAP)).sum()
            for j in range(len(CODES)) if j != i)
        for i in range(len(CODES))
    ]  # fmt: skip
    limit = np.quantile(own, 0.99)
    identity = np.array([limit - 0.01, limit + 0.01, limit + 0.02, limit + 0.05])
    assert sequences.above_stored_pairs(identity, CODES) == 0.75
    halves = np.array([[0, 0], [0, 1], [1, 1], [1, 0]], dtype=np.uint8)  # each shares half with its nearest
    assert sequences.above_stored_pairs(np.array([0.5, 0.6]), halves) == 0.5


def test_the_key_measure_is_one_of_the_comparison():
    comparison = KIND.measures.compare(codec(), CODES[:20])
    assert KIND.measures.key.name in {measure.name for measure in comparison.measures}
    assert [part.name for part in comparison.parts] == [str(i + 1) for i in range(24)]


def test_equal_residues_are_counted_one_by_one():
    np.testing.assert_array_equal(KIND.measures.same(codec(), CODES[:2], CODES[1:3]), CODES[:2] == CODES[1:3])


def test_e_values_are_for_a_database_of_n():
    profile = build_profile(CODES)
    few, many = score(CODES[:5], profile, 5)[1], score(CODES[:5], profile, 500)[1]
    np.testing.assert_allclose(many, 100 * few, rtol=1e-6)


def test_profiles_pass_the_family_and_reject_noise():
    profile = build_profile(CODES)
    assert (score(CODES, profile, 30)[1] < 0.01).mean() > 0.9
    noise = np.random.default_rng(0).integers(0, 20, (30, 24)).astype(np.uint8)
    bits, evalues = score(noise, profile, 30)
    assert (evalues < 0.01).mean() < 0.1
    assert not (score(np.full((2, 24), GAP, dtype=np.uint8), profile, 2)[1] < 0.01).any()
    assert len(bits) == 30


def test_annotations_are_identity_and_requested_scores(tmp_path):
    plain, scored = codec(), whole(score=True).codec
    nearest, extra = KIND.measures.annotate(plain, CODES[:4], 100)
    np.testing.assert_array_equal(nearest, np.arange(4))
    assert list(extra) == ["identity"]
    np.testing.assert_allclose(extra["identity"], 1, atol=1e-6)
    _, extra = KIND.measures.annotate(scored, CODES[:4], 100)
    bits, evalues = score(CODES[:4], build_profile(CODES), 100)
    np.testing.assert_array_equal(extra["score"], bits)
    np.testing.assert_array_equal(extra["evalue"], evalues)
    with (tmp_path / "half.hmm").open("wb") as file:
        build_profile(CODES[:15]).write(file)
    by_file = whole(hmm=str(tmp_path / "half.hmm")).codec
    _, extra = KIND.measures.annotate(by_file, CODES[:4], 100)
    bits, evalues = score(CODES[:4], parse_profile(read_profile(tmp_path / "half.hmm")), 100)
    np.testing.assert_array_equal(extra["score"], bits)
    assert not np.array_equal(extra["score"], score(CODES[:4], build_profile(CODES), 100)[0])
    (tmp_path / "bad.hmm").write_text("nothing")
    for name in ("bad.hmm", "none.hmm"):
        with pytest.raises(InputError, match="is not a profile HMM"):
            whole(hmm=str(tmp_path / name))


def test_summaries_are_of_all_items():
    extra = {
        "identity": np.array([0.5, 0.7]),
        "score": np.array([10.0, 20.0, np.nan, 40.0]),
        "evalue": np.array([1e-5, 0.1, np.inf, 1e-9]),
    }
    assert KIND.measures.summarize(extra) == {"identity": pytest.approx(0.6), "profile_pass": 0.5, "score": 20.0}
    assert KIND.measures.summarize({}) == {}
    none = KIND.measures.summarize({"score": np.array([np.nan]), "evalue": np.array([np.inf])})
    assert np.isnan(none["score"])


def test_the_gallery_marks_residues_that_differ():
    made = dataclasses.replace(codec(), ids=("<b>", *codec().ids[1:]))
    new = CODES[:2].copy()
    new[0, 3] = (new[0, 3] + 1) % 20
    shown = GalleryItems(new, np.array([0, 1]), np.array([0, 1]), np.zeros(2), {"identity": np.array([0.9, 1.0])})
    page = KIND.display.gallery(made, shown)
    assert page.count("<mark>") == 1
    assert f"<mark>{LETTERS[new[0, 3]]}</mark>" in page
    assert "&lt;b&gt;" in page
    assert page.count('class="item"') == 2
    assert re.findall('class="at">([0-9]+)<', page) == ["1", "11", "21"] * 2  # blocks of ten residues


@pytest.mark.slow
@pytest.mark.published
@pytest.mark.skipif("STOCHATTN_DATA" not in os.environ, reason="needs the real alignment: set STOCHATTN_DATA")
def test_the_published_family():
    path = Path(os.environ["STOCHATTN_DATA"]) / "pfam" / "PF00076_seed.sto"
    published, plain = sa.fit(path, beta=8.0, norm="paper"), sa.fit(path, beta=8.0)
    drawn = {}
    for name, made, n in (("paper", published, 150), ("ours", plain, 150), ("many", plain, 5000)):
        drawn[name] = {m.name: m.value for m in KIND.measures.compare(made.codec, made.sample_items(n, 0)).measures}
    assert drawn["paper"]["identity to nearest"] == pytest.approx(0.538, abs=0.02)
    assert drawn["paper"]["composition divergence"] == pytest.approx(0.060, abs=0.03)
    assert drawn["ours"]["composition divergence"] <= 0.01
    assert drawn["ours"]["position divergence"] <= 0.8
    assert drawn["ours"]["profile pass"] == 1
    assert drawn["ours"]["pairwise diversity"] >= 0.68
    assert drawn["many"]["pair correlation r"] >= 0.8  # 150 sequences are too few to estimate 10⁶ pairs
    made = embedding(plain.codec.stored)
    np.testing.assert_array_equal(decoded(made), plain.codec.stored)


def test_options_are_checked_by_name():
    assert ProteinOptions().max_column_gaps == 0.5
    with pytest.raises(InputError, match="max_colum_gaps is not an option of protein data"):
        sa.fit(TEXTS, max_colum_gaps=0.4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b">a\n\n>b\n\n", r"sequence 1 \(a\) has no residues"),
        (b">a\nACDEF\n>b\n.....\n>c\nACD--\n", r"sequence 2 \(b\) has no residues"),
        (b">a\nACDEF\n>b\n*****\n>c\nACD--\n", r"sequence 2 \(b\) has no residues"),
        (b">a\nACDEF\n>b\xff\nACDEG\n", r"the name of sequence 2 \(b\\xff\) is not UTF-8"),
    ],
)
def test_a_record_that_easel_cannot_read_is_refused_before_it_sees_it(tmp_path, text, message):
    path = tmp_path / "family.a2m"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message):
        sa.fit(path)


def test_options_with_few_values_name_them():
    """The command line lists them, and refuses others."""
    assert option_fields(KIND.generators["hopfield"])["gaps"].choices == ("zeros", "symbol")


def test_densities_do_not_depend_on_the_other_sequences():
    synth = sa.fit(as_text(CODES))
    texts = synth.sample(2, rng=0)
    one_letter, all_gaps = "A" * len(texts[0]), "-" * len(texts[0])
    together = synth.log_density([*texts, one_letter, all_gaps])
    assert synth.log_density([one_letter]) == pytest.approx(together[2:3])
    assert synth.log_density([all_gaps]) == pytest.approx(together[3:])
    assert synth.log_density({"first": texts[0], "second": texts[1]}) == pytest.approx(together[:2])
    with pytest.raises(InputError, match=r"items must be sequences, .*; got one string\. Pass a list"):
        synth.log_density(texts[0])
    with pytest.raises(InputError, match=r"items must be sequences, .*; got none"):
        synth.log_density([])


def test_lines_may_end_in_any_way(tmp_path):
    for ending in ("\n", "\r\n", "\r"):
        (tmp_path / "a.fasta").write_bytes(ending.join([">a", "ACDEF", ">b", "ACDE-", ">c", "ACGEF", ""]).encode())
        codec = sa.fit(tmp_path / "a.fasta").codec
        assert codec.ids == ("a", "b", "c")
        assert codec.to_user(codec.stored) == ["ACDEF", "ACDE-", "ACGEF"]


def test_unaligned_a2m_is_refused_in_our_words(tmp_path):
    (tmp_path / "a.a2m").write_text(">a\nMKVLO\n>b\nMKILv\n>c\nMRVLA\n")
    with pytest.raises(InputError, match="as many capital letters and gaps") as caught:
        sa.fit(tmp_path / "a.a2m")
    assert "residue" not in str(caught.value)


def test_p_beta_refuses_conditions_that_it_cannot_meet_before_it_is_fitted():
    sequences = ["MKVLA", "MRILA", "MKILS", "MRVLS", "MK-LS", "MRVLA"]
    latent, p_beta = sa.fit(sequences), sa.fit(sequences, generator="hopfield")
    assert {one[0] for one in latent.condition({1: "W"}).sample(3, rng=0)} == {"W"}
    why = "no stored sequence has W in this column, and this generator needs one"
    with pytest.raises(InputError) as caught:
        p_beta.condition({1: "W"})
    assert str(caught.value) == f"condition 1=W: {why}. Choose another, or generator='latent'."
    assert "generator" not in vars(p_beta.generator_fit)
    assert {one[1] for one in p_beta.condition({2: "K"}).sample(3, rng=0)} == {"K"}
    inserted = sa.fit(["MKV-A", "MRI-A", "MKI-S", "MRVLS", "MKV-S"], generator="hopfield", max_column_gaps=0.3)
    with pytest.raises(InputError, match=r"condition 4=L: the column is an insertion"):
        inserted.condition({4: "L"})


@pytest.mark.parametrize("extension", [".fasta", ".sto"])
@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0", b"PK\3\4\x14\0", bytes(range(256)) * 8])
def test_files_that_are_no_text_are_refused_before_easel_reads_them(content, extension, tmp_path):
    path = tmp_path / f"wrong{extension}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="binary"):
        sa.fit(path)
