"""The library's way to new examples of a kind of data: the same as the command line's."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn import pipeline
from stochattn.data.returns import ReturnsCodec
from stochattn.data.tables import TableCodec
from stochattn.paths import Course, paths


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


def test_sequences_come_back_as_aligned_texts(tmp_path):
    texts = family()
    examples = sa.for_proteins(texts)
    new = examples.sample(5, rng=3)
    assert [len(text) for text in new] == [15] * 5
    assert set("".join(new)) <= set("ACDEFGHIKLMNPQRSTVWY-")
    file = tmp_path / "family.fasta"
    file.write_text("".join(f">{i + 1}\n{text}\n" for i, text in enumerate(texts)))
    assert sa.for_proteins(file).sample(5, rng=3) == new
    assert sa.for_proteins({f"s{i}": text for i, text in enumerate(texts)}).codec.ids[:2] == ("s0", "s1")


def test_columns_that_were_dropped_are_gaps():
    texts = [text + ("-" if i else "W") for i, text in enumerate(family())]
    examples = sa.for_proteins(texts)
    assert examples.codec.stored.shape == (12, 15)
    assert all(len(text) == 16 and text[-1] == "-" for text in examples.sample(4, rng=0))


def test_pictures_of_one_class_are_made_of_that_class():
    rng = np.random.default_rng(1)
    bright, dark = rng.integers(150, 255, (8, 12, 12)), rng.integers(0, 100, (8, 12, 12))
    images = np.concatenate([bright, dark]).astype(np.uint8)
    examples = sa.for_images(images, labels=["bright"] * 8 + ["dark"] * 8)
    new = examples.given(keep=["dark"], target="native").sample(6, rng=0)
    assert (new.shape, new.dtype) == ((6, 12, 12), np.uint8)
    assert new.max() < 100


def test_a_table_gives_a_frame_and_holds_what_is_fixed():
    examples = sa.for_table(frame())
    new = examples.given(fix=["age=40"]).sample(7, rng=0)
    assert list(new.columns) == ["age", "dose", "sex"]
    assert (new["age"] == 40).all()
    assert len(examples.sample(3, rng=0)) == 3


def test_choices_are_those_of_the_plan():
    examples = sa.for_table(frame())
    codec = TableCodec.fit(frame())
    assert examples.given(beta=30.0).plan.beta == 30.0
    plan = pipeline.plan(codec, novelty=0.1, keep=["sex=f"])
    assert examples.given(novelty=0.1).given(keep=["sex=f"]).plan.beta == plan.beta
    assert repr(examples.given(novelty=0.1)) == "Examples(30 of kind table, novelty=0.1)"


def test_the_first_of_many_are_the_few():
    examples = sa.for_proteins(family())
    assert examples.sample(pipeline.BLOCK + 5, rng=2)[:4] == examples.sample(4, rng=2)


def test_returns_from_a_frame_and_their_paths():
    rng = np.random.default_rng(2)
    days = pd.date_range("2024-01-01", periods=90)
    history = pd.DataFrame(0.01 * rng.standard_t(4, (90, 3)), index=days, columns=list("abc"))
    examples = sa.for_returns(history, window=5)
    assert isinstance(examples.codec, ReturnsCodec)
    assert examples.codec.dates[0] == "2024-01-01"
    assert examples.sample(4, rng=0).shape == (4, 5, 3)
    for linked in (True, False):
        plan = pipeline.plan(examples.codec, target="native")
        expected = next(paths(plan, Course(17, linked), 2, 0)).items
        np.testing.assert_array_equal(examples.paths(2, 17, rng=0, linked=linked), expected)
    assert not np.array_equal(examples.paths(2, 17, rng=0), examples.paths(2, 17, rng=0, linked=False))
    with pytest.raises(ValueError, match="a file or a data frame"):
        sa.for_returns(history.to_numpy())


def test_prices_in_a_frame_become_log_returns(tmp_path):
    rng = np.random.default_rng(3)
    days = pd.date_range("2024-01-01", periods=40, name="date")
    prices = pd.DataFrame(100 * np.exp(0.01 * rng.standard_normal((40, 3)).cumsum(0)), index=days, columns=list("abc"))
    codec = sa.for_returns(prices, window=1).codec
    np.testing.assert_allclose(codec.history, np.diff(np.log(prices.to_numpy()), axis=0), atol=1e-12)
    assert "prices became log-returns." in codec.notes
    prices.to_csv(tmp_path / "prices.csv")
    np.testing.assert_allclose(
        sa.for_returns(tmp_path / "prices.csv", window=1).codec.history, codec.history, atol=1e-9
    )
    np.testing.assert_array_equal(sa.for_returns(prices.reset_index(), window=1).codec.history, codec.history)
    with pytest.raises(ValueError, match="no column of dates"):
        sa.for_returns(prices.reset_index(drop=True))


def test_choices_are_checked_at_once():
    examples = sa.for_table(frame())
    with pytest.raises(ValueError, match="'fixed'"):
        examples.given(fixed=["age=40"])
    with pytest.raises(TypeError, match="fix must be a list of texts, such as"):
        examples.given(fix="age=40")


def test_a_judgement_is_told_in_a_few_lines():
    told = str(sa.for_table(frame(40)).given(beta=1e6).judge(40))
    assert told.splitlines()[0] == "10 half-splits of 40 items, 40 draws each; mean ± sd (ideal)"
    assert "closer          1.00 ± 0.00 (0.5)" in told
    assert len(told.splitlines()) == 7


def test_judging_is_by_halves():
    found = sa.for_table(frame(40)).given(beta=1e6).judge(40)
    assert found.items == 40
    assert found.closer == 1.0  # cold draws are copies of their half


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ("MKV LLA", "does not exist"),
        ([], "at least two"),
        (["MKV", "MK"], "lengths from 2 to 3"),
        (["", ""], "all empty"),
        (["MKVAAA", "MKVAAA"], "all alike"),
    ],
)
def test_bad_sequences(sequences, message):
    with pytest.raises(ValueError, match=message):
        sa.for_proteins(sequences)


def test_names_are_found_without_loading_them():
    code = "import sys, stochattn as sa; print('for_table' in dir(sa), 'stochattn.examples' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["True", "False"]
    with pytest.raises(AttributeError, match="no attribute 'for_cats'"):
        _ = sa.for_cats


def test_identifiers_are_numbered_through_all_blocks(monkeypatch):
    monkeypatch.setattr(pipeline, "BLOCK", 16)
    named = frame().assign(name=[f"patient {i} of {i}" for i in range(30)])
    new = sa.for_table(named).sample(40, rng=0)
    assert new["name"].tolist() == [f"new-{i + 1}" for i in range(40)]
