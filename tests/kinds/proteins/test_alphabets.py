"""Insertions, conserved sites, DNA and RNA, and alignments that are not what they should be."""

import numpy as np
import pytest

import stochattn as sa
from made_items import as_text, family, write_stockholm
from stochattn.kinds import InputError
from stochattn.kinds.proteins.generator.sequences import GAP
from stochattn.kinds.proteins.reading import ALPHABETS, parse_alignment
from stochattn.kinds.proteins.sequences import CONSERVED, conserved_share


def nucleotides(K=24, L=40, letters="ACGT"):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (2, L))[rng.integers(0, 2, K)]
    drift = rng.random((K, L)) < 0.2
    codes[drift] = rng.integers(0, 4, drift.sum())
    codes[:, 7] = 2
    return ["".join(letters[code] for code in row) for row in codes]


@pytest.mark.parametrize(("letters", "name"), [("ACGT", "dna"), ("ACGU", "rna")])
def test_dna_and_rna_have_their_own_letters(tmp_path, letters, name):
    synth = sa.fit(nucleotides(letters=letters), score=True)
    assert synth.codec.alphabet == name
    assert any(f"read as {name.upper()}" in note for note in synth.codec.notes)
    new = synth.sample(200, rng=0)
    assert set("".join(new)) <= {*letters, "-"}
    assert np.mean([row[7] == "G" for row in new]) > 0.95
    letter = nucleotides(letters=letters)[0][2]
    assert all(row[2] == letter for row in synth.condition({3: letter}).sample(50, rng=0))
    assert np.isfinite(synth.log_density(new[:5])).all()
    synth.write(tmp_path / "new.fasta", 20, rng=0)
    header = (tmp_path / "new.fasta").read_text().splitlines()[0]
    assert "score=" in header
    synth.save(tmp_path / "synth.npz")
    assert sa.load(tmp_path / "synth.npz").sample(5, rng=1) == synth.sample(5, rng=1)
    hopfield = sa.fit(nucleotides(letters=letters), generator="hopfield").sample(20, rng=0)
    assert set("".join(hopfield)) <= {*letters, "-"}


def test_an_alphabet_can_be_named():
    assert sa.fit(nucleotides(), alphabet="protein").codec.alphabet == "protein"
    with pytest.raises(InputError, match="alphabet must be one of protein, dna, rna; got 'xna'"):
        sa.fit(nucleotides(), alphabet="xna")
    with pytest.raises(InputError, match=r"alphabet='dna': \d+% of the letters of sequences are others"):
        sa.fit(as_text(family()), alphabet="dna")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["AAAAAAAA", "AAAA-AAA", "AA-AAAAA"], "sequences holds the letter A only: .* two different letters"),
        (["ACGTACGT", "ACGUACGA"], r"sequences mixes DNA and RNA \(T and U\)"),
        ([*as_text(family(K=8, L=24)), "ACGT" * 6], "sequence 9 of sequences looks like DNA or RNA, and others"),
        (["ACDEF", "ACDE"], r"must be aligned; got lengths from 4 to 5. Align them first: famsa .* mafft"),
    ],
)
def test_sequences_that_cannot_be_used_give_one_line(texts, message):
    with pytest.raises(InputError, match=message) as error:
        sa.fit(texts)
    assert "\n" not in str(error.value)


def test_an_alphabet_has_a_symbol_for_each_code_and_for_gaps():
    assert "".join(ALPHABETS["dna"].symbols) == "ACGT" + 17 * "-"
    assert "".join(ALPHABETS["protein"].symbols) == "ACDEFGHIKLMNPQRSTVWY-"


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["ACGT", "ACGA"], "dna"),
        (["ACGT", "ACG-"], "protein"),
        (["ACGTACGTAC", "ACGTACGTAW"], "dna"),
        (["ACGTACGTWC", "ACGTACGTAW"], "protein"),
    ],
    ids=["8 letters", "7 letters", "95 % nucleotides", "90 % nucleotides"],
)
def test_eight_letters_show_an_alphabet_if_95_percent_are_nucleotides(texts, name):
    assert parse_alignment(texts, None).alphabet == name


def test_a_sequence_of_nucleotides_among_proteins_is_named_if_it_has_20_letters():
    proteins = as_text(family(K=8, L=20))
    with pytest.raises(InputError, match="sequence 9 of sequences looks like DNA or RNA"):
        parse_alignment([*proteins, "ACGTACGTACGTACGTACGW"], None)  # 95 % of its letters are nucleotides
    for text in ("ACGTACGTACGTACGTACWW", "ACGTACGTACGTACGTACG-"):
        assert parse_alignment([*proteins, text], None).alphabet == "protein"


def test_letters_beyond_the_alphabet_are_named():
    assert parse_alignment(["ACDEFGHIKX", "ACDEFGHIKL"], None).notes == (
        "1 letter beyond the 20 amino acids was mapped: X as a gap.",
    )
    notes = parse_alignment(["ACGTACGW", "ACGTACGT"], "dna").notes
    assert notes == ("1 letter beyond the letters ACGT was mapped: W as a gap.",)


def test_insertions_are_drawn(tmp_path):
    rng = np.random.default_rng(2)
    codes = np.insert(family(K=30, L=20), [10] * 6, GAP, axis=1)
    codes[:12, 10:16] = rng.integers(0, 20, (12, 6))  # 12 of 30 sequences have an insertion of six residues
    synth = sa.fit(write_stockholm(tmp_path / "family.sto", codes))
    assert synth.codec.insertions == tuple(range(10, 16))
    lengths = np.array([len(row.replace("-", "")) for row in synth.sample(2000, rng=0)])
    assert np.mean(lengths > 22) == pytest.approx(12 / 30, abs=0.12)
    assert np.median(lengths) == pytest.approx(np.median((codes != GAP).sum(1)), abs=1)
    hopfield = synth.with_generator("hopfield")
    assert all(set(row[10:16]) == {"-"} for row in hopfield.sample(20, rng=0))
    with pytest.raises(InputError, match="is an insertion, which this generator leaves out"):
        hopfield.condition({11: as_text(codes)[0][10]}).sample(2, rng=0)


def test_conserved_sites_are_measured():
    codes = np.tile(np.arange(10, dtype=np.uint8), (20, 1))
    codes[:, 9] = np.arange(20)
    codes[0, 8] = 3  # 95 % agree
    new = codes.copy()
    new[:, 0], new[:5, 1] = GAP, 7
    # Column 0 has no residue any more; of columns 1 to 8, 5 + 1 of 160 residues are others.
    assert conserved_share(new, codes) == pytest.approx(1 - 6 / 160)
    synth = sa.fit(as_text(family(K=40, L=24)))
    measures = {one.name: one for one in synth.kind.measures.compare(synth.codec, synth.sample_items(50, 0)).measures}
    assert np.isnan(measures[CONSERVED].value)
