"""Synthesizers: fit on files and on data in memory, sample, condition, select, weight, save and load."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn._backend.state import load_state, save_state
from stochattn.kinds import InputError
from stochattn.synthesizer import drawing


def family(K=12, L=15, seed=0):
    rng = np.random.default_rng(seed)
    ancestor = rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), L)
    mutated = rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), (K, L))
    return ["".join(row) for row in np.where(rng.random((K, L)) < 0.7, ancestor, mutated)]


def frame(K=30, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, K)
    return pd.DataFrame(
        {"age": age, "dose": (age / 10 + rng.normal(size=K)).round(1), "sex": rng.choice(["f", "m"], K)}
    )


def history():
    rng = np.random.default_rng(2)
    days = pd.date_range("2024-01-01", periods=90)
    return pd.DataFrame(0.01 * rng.standard_t(4, (90, 3)), index=days, columns=list("abc"))


def test_blocks_have_the_sizes_that_results_depend_on():
    """Block b of a sample has its own random numbers: other sizes would change what a seed gives."""
    rng = np.random.default_rng(0)
    synth = sa.fit(rng.normal(size=(8, 2)), "table", generator="hopfield", beta=2.0)
    assert [len(batch.items) for batch in synth.batches(4100, 0)] == [4096, 4]
    large = sa.fit(rng.integers(0, 256, (6, 128, 128)).astype(np.uint8), generator="hopfield", beta=2.0)
    assert large.block_size == 512  # of 2**14 pixels: 2**23 numbers


def test_a_condition_may_be_repeated_and_not_contradicted():
    signals = np.random.default_rng(0).normal(size=(12, 20))
    synth = sa.fit(signals, "signals").condition({(0, 3): signals[0, :3]})
    again = synth.condition({(0, 3): signals[0, :3].copy()})  # equal arrays, of which each has many truth values
    np.testing.assert_array_equal(again.conditions[0, 3], signals[0, :3])
    with pytest.raises(InputError, match=r"is conditioned on .* already"):
        synth.condition({(0, 3): signals[1, :3]})


# Fitting


def test_sequences_are_aligned_texts(tmp_path):
    texts = family()
    new = sa.fit(texts).sample(5, rng=3)
    assert [len(text) for text in new] == [15] * 5
    assert set("".join(new)) <= set("ACDEFGHIKLMNPQRSTVWY-")
    file = tmp_path / "family.fasta"
    file.write_text("".join(f">{i + 1}\n{text}\n" for i, text in enumerate(texts)))
    assert sa.fit(file).sample(5, rng=3) == new
    assert sa.fit({f"s{i}": text for i, text in enumerate(texts)}).codec.ids[:2] == ("s0", "s1")


def test_insertions_are_about_as_frequent_as_among_stored_sequences():
    texts = [text + ("-" if i else "W") for i, text in enumerate(family())]
    synth = sa.fit(texts)
    assert synth.codec.stored.shape == (12, 16)
    ends = [text[15:] for text in synth.sample(600, rng=0)]
    assert 0.04 < sum(end != "-" for end in ends) / 600 < 0.15  # stored: one of twelve


def test_returns_from_a_frame_and_their_paths():
    synth = sa.fit(history(), window=5)
    assert synth.kind.name == "returns"
    assert synth.codec.dates[0] == "2024-01-01"
    assert synth.sample(4, rng=0).shape == (4, 5, 3)
    linked = sa.fit(history(), window=5, days=17)
    assert linked.sample(2, rng=0).shape == (2, 17, 3)
    assert not np.array_equal(linked.sample(2, rng=0), linked.with_generator(days=17, link=False).sample(2, rng=0))
    assert sa.fit(history().to_numpy(), "returns", window=5).sample(4, rng=0).shape == (4, 5, 3)


def test_prices_in_a_frame_become_log_returns(tmp_path):
    rng = np.random.default_rng(3)
    days = pd.date_range("2024-01-01", periods=40, name="date")
    prices = pd.DataFrame(100 * np.exp(0.01 * rng.standard_normal((40, 3)).cumsum(0)), index=days, columns=list("abc"))
    codec = sa.fit(prices, window=1).codec
    np.testing.assert_allclose(codec.history, np.diff(np.log(prices.to_numpy()), axis=0), atol=1e-12)
    assert "prices became log-returns." in codec.notes
    prices.to_csv(tmp_path / "prices.csv")
    np.testing.assert_allclose(sa.fit(tmp_path / "prices.csv", window=1).codec.history, codec.history, atol=1e-9)
    np.testing.assert_array_equal(sa.fit(prices.reset_index(), "returns", window=1).codec.history, codec.history)
    without_dates = sa.fit(prices.reset_index(drop=True), "returns", window=1).codec
    np.testing.assert_array_equal(without_dates.history, codec.history)


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ("MKV LLA", "does not exist"),
        ([], "at least two"),
        (["MKV", "MK"], "lengths from 2 to 3"),
        (["", ""], "are empty"),
        (["MKVAAA", "MKVAAA"], "are equal"),
    ],
)
def test_bad_sequences(sequences, message):
    with pytest.raises(ValueError, match=message):
        sa.fit(sequences, "protein").sample(1, rng=0)


def test_data_that_cannot_be_fitted_is_an_error(tmp_path):
    with pytest.raises(
        InputError, match="is not recognized from int: pass a data frame, an array or the path of a file, or kind="
    ):
        sa.fit(3)
    column = frame()["age"]
    with pytest.raises(InputError, match=r"from Series, which is one column: pass .* such as that of its to_frame\(\)"):
        sa.fit(column)
    with pytest.raises(InputError, match=r"got pandas.*Series\. Call its to_frame\(\)\."):
        sa.fit(column, "table")
    assert len(sa.fit(column.to_frame(), "table").sample(2, rng=0)) == 2
    with pytest.raises(InputError, match="kind must be one of"):
        sa.fit(frame(), "music")
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        sa.fit(tmp_path / "none.csv")
    (tmp_path / "a.xyz").write_text("")
    with pytest.raises(InputError, match=r"a\.xyz: the kind of data is not recognized by the extension '.xyz'"):
        sa.fit(tmp_path / "a.xyz")
    (tmp_path / "a").write_text("")
    with pytest.raises(InputError, match="the kind of data is not recognized because the name has no extension"):
        sa.fit(tmp_path / "a")
    for kind in ("image", "signals"):
        with pytest.raises(InputError, match="a has no extension: name"):
            sa.fit(tmp_path / "a", kind)
    with pytest.raises(TypeError, match="trial must be True or False; got 'no'"):
        sa.fit(frame(), trial="no")
    (tmp_path / "a.csv.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(InputError, match=r"a\.csv\.gz is compressed: unpack it"):
        sa.fit(tmp_path / "a.csv.gz")
    with pytest.raises(InputError, match=r"bta is not an option of table data; there are .*beta"):
        sa.fit(frame(), bta=3)
    with pytest.raises(ValueError, match=r"generator must be one of 'auto', .*; got 'best'"):
        sa.fit(frame(), generator="best")
    with pytest.raises(InputError, match=r"length is not an option of table data: .* with kind='signals'\.$"):
        sa.fit(frame(), length=30)
    with pytest.raises(InputError, match="beta is not an option of table data with the generator 'covariance'"):
        sa.fit(frame(), generator="covariance", beta=3.0)


# Sampling


def test_fewer_samples_are_the_first_of_more():
    synth = sa.fit(family())
    assert synth.sample(drawing.BLOCK + 5, rng=2)[:4] == synth.sample(4, rng=2)


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (-3, ValueError), (2.5, TypeError), (True, TypeError)])
def test_the_number_of_samples_is_checked(n, error):
    with pytest.raises(error, match="n must be"):
        sa.fit(frame()).sample(n)


def test_identifiers_are_numbered_through_all_blocks(monkeypatch):
    monkeypatch.setattr(drawing, "BLOCK", 16)
    named = frame().assign(name=[f"patient {i} of {i}" for i in range(30)])
    new = sa.fit(named).sample(40, rng=0)
    assert new["name"].tolist() == [f"new-{i + 1}" for i in range(40)]


def test_few_stored_items_are_noted():
    assert any("only 6 stored sequences count" in note for note in sa.fit(family(6)).notes)
    assert not any("stored sequences count" in note for note in sa.fit(family(12)).notes)
    assert any("only 5 stored rows count" in note for note in sa.fit(frame()).subset(range(5)).notes)


# Choosing, conditioning, selecting


def test_an_option_of_p_beta_chooses_it():
    synth = sa.fit(frame())
    assert synth.choice.name == "covariance"
    assert sa.fit(frame(), beta=30.0).generator.beta == 30.0
    warm = synth.with_generator(novelty=0.1)
    assert warm.choice.name == "hopfield"
    women = np.asarray(frame()["sex"] == "f")
    alone = sa.fit(frame(), novelty=0.1).subset(women)
    assert warm.subset(women).generator.beta == alone.generator.beta
    assert alone.generator.beta != warm.generator.beta
    assert repr(warm) == "Synthesizer(30 rows of 3 columns, generator='hopfield', novelty=0.1)"
    assert repr(warm.subset(women).condition(age=40)) == (
        f"Synthesizer({women.sum()} of 30 rows of 3 columns, "
        "generator='hopfield', novelty=0.1, conditions={'age': 40})"
    )


def test_conditions_add_up_and_do_not_change_the_synthesizer():
    synth = sa.fit(frame())
    before = synth.sample(5, rng=0)
    new = synth.condition(age=40).condition({"sex": "f"}).sample(7, rng=0)
    assert list(new.columns) == ["age", "dose", "sex"]
    assert (new["age"] == 40).all()
    assert (new["sex"] == "f").all()
    assert dict(synth.conditions) == {}
    pd.testing.assert_frame_equal(synth.sample(5, rng=0), before)


def test_a_condition_that_is_repeated_must_have_the_same_value():
    synth = sa.fit(frame()).condition(age=40)
    assert dict(synth.condition(age=40.0, sex="f").conditions) == {"age": 40, "sex": "f"}
    for repeat in (lambda: synth.condition(age=50), lambda: synth.condition({"sex": "f"}, sex="m")):
        with pytest.raises(InputError, match="has no value that also meets"):
            repeat()


@pytest.mark.parametrize("values", [{"shoe": 40}, {"sex": "purple"}, {"age": "old"}])
def test_impossible_conditions_are_errors_before_any_draw(values):
    with pytest.raises(InputError):
        sa.fit(frame()).condition(values)


def test_a_class_selects_its_items():
    rng = np.random.default_rng(1)
    bright, dark = rng.integers(150, 255, (8, 12, 12)), rng.integers(0, 100, (8, 12, 12))
    images = np.concatenate([bright, dark]).astype(np.uint8)
    synth = sa.fit(images, labels=["bright"] * 8 + ["dark"] * 8)
    new = synth.subset("dark").sample(6, rng=0)
    assert (new.shape, new.dtype) == ((6, 12, 12), np.uint8)
    assert new.max() < 100
    np.testing.assert_array_equal(synth.subset(["dark"]).weights, np.repeat([0.0, 1.0], 8))
    np.testing.assert_array_equal(synth.weight(3, "bright").weights, np.repeat([3.0, 1.0], 8))
    np.testing.assert_array_equal(synth.weight(3, "bright").weight(2, [0]).weights[:2], [6.0, 3.0])


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("x", "selection names a class, and the stored items have none"),
        ([40], "selection"),
        ([True, False], "selection"),
    ],
)
def test_bad_selections(selection, message):
    synth = sa.fit(frame().drop(columns="sex"))
    for select in (synth.subset, lambda selection: synth.weight(2.0, selection)):
        with pytest.raises((ValueError, IndexError), match=message):
            select(selection)


def test_items_on_standard_output_have_no_file_to_measure(capsysbinary):
    synth = sa.fit(frame())
    summary = synth.write("-", 5, rng=0, format="csv")
    assert capsysbinary.readouterr().out.count(b"\n") == 6
    assert (summary.output, summary.n, summary.bytes, summary.sha256, summary.files) == ("-", 5, None, None, ())


def test_a_selection_may_name_items_that_do_not_count():
    once = sa.fit(frame()).subset([1, 2])
    np.testing.assert_array_equal(np.flatnonzero(once.subset([2, 3]).weights), [2])
    np.testing.assert_array_equal(once.weight(3.0, [2, 3]).weights[:4], [0.0, 1.0, 3.0, 0.0])


def test_a_selection_must_not_be_empty():
    synth = sa.fit(frame())
    nothing = np.zeros(30, dtype=bool)
    count = r"none of the 30 stored rows that count\. Select some of them\."
    for selection, words in (
        (lambda: synth.subset(nothing), "none of the 30 stored"),
        (lambda: synth.subset([1]).subset([2]), f"selection leaves {count}"),
        (lambda: synth.weight(3.0, nothing), "none of the 30 stored"),
        (lambda: synth.subset([1]).weight(3.0, [2]), f"selection selects {count}"),
    ):
        with pytest.raises(ValueError, match=words):
            selection()


def test_a_file_of_another_format_is_rejected_with_the_version_that_wrote_it(tmp_path):
    sa.fit(frame()).save(tmp_path / "a.npz")
    state = load_state(tmp_path / "a.npz")
    save_state(tmp_path / "a.npz", {**state, "format": "stochattn synthesizer 1", "version": "0.1.9"})
    with pytest.raises(ValueError, match=r"written by stochattn 0\.1\.9 as 'stochattn synthesizer 1'.* save it again"):
        sa.load(tmp_path / "a.npz")
    save_state(tmp_path / "a.npz", {"format": "another"})
    with pytest.raises(ValueError, match=r"must name a file written by Synthesizer\.save"):
        sa.load(tmp_path / "a.npz")


def test_an_impossible_condition_of_p_beta_fails_at_once():
    law = sa.fit(frame(), generator="hopfield", beta=5.0).generator
    contradiction = np.array([0, 0]), np.array([0.0, 1.0])  # one feature with two values
    with pytest.raises(ValueError, match="no state satisfies the observation"):
        law.condition(contradiction)


def test_an_unknown_class_is_an_error_that_lists_the_classes():
    images = np.random.default_rng(0).integers(0, 255, (4, 12, 12)).astype(np.uint8)
    with pytest.raises(InputError, match="there is no class 'c'; there are a, b"):
        sa.fit(images, labels=list("aabb")).subset("c")


@pytest.mark.parametrize(
    ("ratio", "error"), [(0, ValueError), (-1, ValueError), (np.inf, ValueError), ("2", TypeError)]
)
def test_ratios_are_positive(ratio, error):
    with pytest.raises(error, match="ratio must be a"):
        sa.fit(frame()).weight(ratio, [0])


# Evaluating, saving, importing


def test_draws_at_a_large_beta_are_close_to_the_fitted_half():
    found = sa.fit(frame(40), beta=1e6).evaluate(40)
    assert found.n_items == 40
    assert found.train_proximity == 1.0
    lines = str(found).splitlines()
    assert lines[0] == "10 random splits of 40 items into halves, 40 draws from each; mean ± sd (ideal)"
    assert "train_proximity  1.00 ± 0.00 (0.5)" in lines
    assert len(lines) == 7


def test_other_files_are_not_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match=r"a.npz"):
        sa.load(tmp_path / "a.npz")
    (tmp_path / "b.synth").write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="does not hold a saved state"):
        sa.load(tmp_path / "b.synth")
    with pytest.raises(
        FileNotFoundError, match=r"^path must name a saved file; .*none.synth does not exist. Check the"
    ):
        sa.load(tmp_path / "none.synth")
    with pytest.raises(
        IsADirectoryError, match=f"^path must name a saved file; {tmp_path} is a folder. Check the name"
    ):
        sa.load(tmp_path)


def test_arrays_that_may_be_transposed_show_their_shape():
    X = np.random.default_rng(0).normal(size=(4, 300))
    assert repr(sa.fit(X)).startswith("Synthesizer(4 rows of 300 columns, ")
    assert any("300 features and 4 rows" in note and "transposed" in note for note in sa.fit(X).notes)
    assert repr(sa.fit(X[:, :1])).startswith("Synthesizer(4 rows of 1 column, ")
    bank = sa.MemoryBank(X).normalized()
    assert repr(bank).startswith("MemoryBank(K=4 memories, d=300, ")
    assert repr(sa.StochasticAttention(bank)).startswith("StochasticAttention(K=4 memories, d=300, ")


def test_a_loaded_synthesizer_can_be_conditioned_further(tmp_path):
    synth = sa.fit(frame(), novelty=0.1).condition(age=40)
    synth.save(tmp_path / "a.synth")
    again = sa.load(tmp_path / "a.synth").condition(sex="f")
    pd.testing.assert_frame_equal(again.sample(5, rng=1), synth.condition(sex="f").sample(5, rng=1))


def test_names_are_listed_without_loading_modules():
    code = "import sys, stochattn as sa; print('fit' in dir(sa), 'stochattn.synthesizer.synthesizer' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", "False"]
    with pytest.raises(AttributeError, match="no attribute 'for_cats'"):
        _ = sa.for_cats


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": -1}, "beta must be a positive, finite number; got -1"),
        (
            {"beta": "hot"},
            "beta must be a number or one of 'natural', 'inflection', 'knee', 'leave-one-out'; got 'hot'",
        ),
        ({"novelty": 0.0}, "novelty must be a positive, finite number; got 0.0"),
        ({"beta": 2.0, "novelty": 0.1}, "beta and novelty must not both be given"),
        ({"sampler": "fast"}, "sampler must be one of 'exact', .*; got 'fast'"),
    ],
)
def test_an_impossible_temperature_is_an_error_of_fit(options, message):
    with pytest.raises(ValueError, match=message):
        sa.fit(np.random.default_rng(0).random((20, 3)), "table", **options)


@pytest.mark.parametrize(
    ("given", "like"),
    [
        ({"generater": "covariance"}, "'generator'"),
        ({"n_job": 2}, "'n_jobs'"),
        ({"colums": {}}, "'columns'"),
        ({"widht": (0.1, 0.1, 0)}, "'width'"),
        ({"generator": "hopfeild"}, "'hopfield'"),
        ({"kind": "tabel"}, "'table'"),
        ({"missing": "kep"}, "'keep'"),
    ],
)
def test_misspelt_arguments_of_fit_get_a_suggestion(given, like):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 3)), columns=list("abc"))
    with pytest.raises(ValueError, match=rf" Did you mean {like}\?$"):
        sa.fit(frame, **({"kind": "table"} | given))
    with pytest.raises(ValueError, match=r"\.$"):  # nothing is like it
        sa.fit(frame, "table", qqqqq=1)


def test_conditions_may_be_texts_as_on_the_command_line():
    synth = sa.fit(frame())
    ages = synth.condition("30 <= age < 50").sample(20, rng=0)
    pd.testing.assert_frame_equal(ages, synth.condition(age=sa.Range(ge=30, lt=50)).sample(20, rng=0))
    assert (synth.condition("sex=f", age=40).sample(5, rng=0)["sex"] == "f").all()
    with pytest.raises(InputError, match="there is no column 'size'"):
        synth.condition("size>4")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda frame, synth: sa.fit(frame, columns=1.5), "columns must map names of columns.*got 1.5"),
        (lambda frame, synth: sa.fit(frame, ranges=1), "ranges must map names of columns.*got 1"),
        (lambda frame, synth: sa.fit(frame, ranges={"a": ("low", 2)}), "limits of 'a' must be two numbers.*'low'"),
        (lambda frame, synth: sa.fit(frame, label=3), "label must be the name of a column; got 3. Pass '3'"),
        (lambda frame, synth: synth.condition(1.5), "condition takes names and values.*got 1.5"),
        (lambda frame, synth: synth.novelty([]), "items must be a data frame.*got list"),
        (lambda frame, synth: synth.novelty(frame[["a"]]), "items must have each column.*Add or rename b"),
        (lambda frame, synth: synth.novelty(frame[:0]), "items must hold at least one example"),
        (lambda frame, synth: synth.save(None), "path must be the path of a file.*got None"),
        (lambda frame, synth: synth.write(None, 3), "path must be the path of a file.*got None"),
        (lambda frame, synth: sa.load(3.5), "path must be the path of a file.*got 3.5"),
        (lambda frame, synth: sa.fit(["MKV", "MRV", "MKI"]).novelty(3), "items must be new examples.*got 3"),
        (
            lambda frame, synth: sa.StochasticAttention(np.eye(4), beta=1.0).run(n_steps=3000, first_chain=10**30),
            "below 2",
        ),
    ],
)
def test_arguments_of_another_type_are_named_with_the_rule_and_what_was_passed(call, named):
    frame = pd.DataFrame({"a": np.arange(20.0) + 0.5, "b": np.random.default_rng(0).normal(0, 1, 20)})
    with pytest.raises((InputError, TypeError, ValueError), match=named):
        call(frame, sa.fit(frame))


def test_earlier_names_of_attributes_work_with_a_warning():
    synth = sa.fit(["MKVLA", "MRILA", "MKILS", "MRVLS"], n_jobs=1)
    with pytest.deprecated_call(match="generator_fit.requested"):
        assert synth.asked is synth.generator_fit.requested
    with pytest.deprecated_call(match="generator_fit.n_jobs"):
        assert synth.n_jobs == 1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = synth.nonsense
