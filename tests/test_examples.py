"""The library's way to new examples of a kind of data: the same as the command line's."""

import sys

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn import pipeline
from stochattn.codecs.returns import ReturnsCodec
from stochattn.codecs.tables import TableCodec


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
    assert examples.paths(2, 17, rng=0).shape == (2, 17, 3)
    with pytest.raises(TypeError, match="a file or a data frame"):
        sa.for_returns(history.to_numpy())


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
    assert {"for_images", "for_proteins", "for_returns", "for_table"} <= set(dir(sa))
    with pytest.raises(AttributeError, match="no attribute 'for_cats'"):
        _ = sa.for_cats
    assert "stochattn.examples" in sys.modules  # by now
