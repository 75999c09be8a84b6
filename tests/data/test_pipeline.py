"""From items to items, for every kind of data: novelty, classes, fixed values, blocks, all against the exact law."""

import numpy as np
import pandas as pd
import pytest
from made_items import write_all

from stochattn import outputs, pipeline
from stochattn.data.legacy import InputError
from stochattn.data.legacy_registry import load, read, recognise
from stochattn.data.selection import select, weighting

KINDS = ("protein", "image", "table", "returns")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def codecs(inputs):
    class Read(dict):
        def __missing__(self, kind):
            self[kind] = read(inputs[kind], **({"variance": 1.0} if kind == "protein" else {}))
            return self[kind]

    return Read()


def drawn(plan, n, seed=0):
    parts = [batch.items for batch in pipeline.batches(plan, n, seed)]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pd.concat(parts, ignore_index=True)


def novelties(plan, n, seed=0):
    return np.concatenate([batch.novelty for batch in pipeline.batches(plan, n, seed)])


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_recognised(inputs, kind):
    assert recognise(inputs[kind]) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_stored_items_come_back(codecs, kind):
    codec = codecs[kind]
    again = codec.decode(codec.encode(codec.stored))
    assert codec.same(again, codec.stored).all()
    assert codec.loss().items == 1


@pytest.mark.parametrize("kind", KINDS)
def test_saved_codecs_decode_alike(codecs, kind, tmp_path):
    codec = codecs[kind]
    codec.save(tmp_path / "codec.npz")
    again = load(tmp_path / "codec.npz")
    rows = codec.coordinates.stored[:5] + 0.05
    assert codec.same(again.decode(rows, 50.0), codec.decode(rows, 50.0)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_any_reachable_novelty_is_met(codecs, kind, share):
    # 20,000 draws leave a standard error below 0.0015 (novelty spreads by less than 0.2): 0.01 is six of them.
    codec = codecs[kind]
    highest = pipeline.plan(codec, beta=1e-6).predicted_novelty()
    plan = pipeline.plan(codec, novelty=share * highest)
    assert novelties(plan, 20_000).mean() == pytest.approx(share * highest, abs=0.01)
    assert plan.predicted_novelty() == pytest.approx(share * highest, abs=1e-6)


def test_novelty_is_measured_among_the_kept(codecs):
    codec = codecs["image"]
    plan = pipeline.plan(codec, beta=30.0, keep=["lying"])
    kept = codec.coordinates.stored[np.array(codec.labels) == "lying"]
    rows = codec.coordinates.stored  # half of them are dropped, and new to what is kept
    expected = [1 - max(row @ m / np.linalg.norm(row) for m in kept) for row in rows]
    np.testing.assert_allclose(plan.novelty(rows), expected, atol=1e-9)


def test_decoding_draws_differ_by_block_and_by_seed(codecs, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(pipeline, "BLOCK", 8)
    noisy = replace(codecs["protein"], temperature=1.0)
    cold = pipeline.plan(noisy, beta=1e12, keep=["^seq1$"])  # one memory without noise: only decoding differs
    first, second = drawn(cold, 16, 0)[:8], drawn(cold, 16, 0)[8:]
    assert not np.array_equal(first, second)
    assert not np.array_equal(drawn(cold, 8, 0), drawn(cold, 8, 1))


def test_novelty_is_met_with_something_fixed(codecs):
    plan = pipeline.plan(codecs["table"], novelty=0.15, fix=["age=40"])
    assert novelties(plan, 20_000).mean() == pytest.approx(0.15, abs=0.01)
    assert (drawn(plan, 100)["age"] == 40).all()
    with pytest.raises(InputError, match="out of reach with age=40 fixed"):
        pipeline.plan(codecs["table"], novelty=0.99, fix=["age=40"])


def test_out_of_reach_is_said_with_the_range(codecs):
    with pytest.raises(ValueError, match="out of reach: this bank"):
        pipeline.plan(codecs["protein"], novelty=0.999)
    with pytest.raises(InputError, match="both set the temperature"):
        pipeline.plan(codecs["protein"], novelty=0.2, beta=3.0)


@pytest.mark.parametrize(("kind", "label"), [("image", "lying"), ("table", "green")])
def test_keep_and_weight_move_class_shares_to_the_exact_mixture_s(codecs, kind, label):
    codec = codecs[kind]
    labels = np.array(codec.labels)
    plan = pipeline.plan(codec, beta=50.0, weight=[f"{label}:5"])
    r = np.where(labels == label, 5.0, 1.0)
    expected = r[labels == label].sum() / r.sum()  # unit rows and equal weights both weigh by r alone
    # A row says its own class, predicted from 40,000 draws: five standard errors. At this beta hardly one changes it.
    near = 5 * np.sqrt(expected * (1 - expected) / 40_000) if kind == "table" else 1e-9
    assert plan.predicted_shares()[label] == pytest.approx(expected, abs=near)
    memory = np.concatenate([batch.memory for batch in pipeline.batches(plan, 20_000, 0)])
    share = (labels[memory] == label).mean()
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)
    only = pipeline.plan(codec, beta=50.0, keep=[label])
    memory = np.concatenate([batch.memory for batch in pipeline.batches(only, 200, 0)])
    assert set(labels[memory]) == {label}


def test_selections(codecs, tmp_path):
    family, table = codecs["protein"], codecs["table"]
    assert select(family, "^seq1").sum() == 11  # seq1, seq10 … seq19
    (tmp_path / "ids.txt").write_text("seq3\nseq5\n")
    np.testing.assert_array_equal(np.flatnonzero(select(family, str(tmp_path / "ids.txt"))), [3, 5])
    np.testing.assert_array_equal(select(table, "group=red"), np.asarray(table.stored["group"] == "red"))
    age = int(table.stored["age"].iloc[0])
    np.testing.assert_array_equal(select(table, f"age={age}"), np.asarray(table.stored["age"] == age))
    chosen, ratio = weighting(family, "seq1:2.5")
    assert (chosen.sum(), ratio) == (11, 2.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nobody", "matches none"),
        ("(", "no regular expression"),
        ("height=1", "matches none"),
        ("no=1", "no column 'no'"),
    ],
)
def test_selections_that_mean_nothing(codecs, text, said):
    with pytest.raises(InputError, match=said):
        select(codecs["table"], text)


def test_a_class_that_does_not_exist_is_answered_with_those_that_do(codecs):
    with pytest.raises(InputError, match="classes are lying, standing"):
        select(codecs["image"], "flying")
    with pytest.raises(InputError, match="a selection and a positive ratio"):
        weighting(codecs["image"], "lying")


def test_ids_of_a_list_must_exist(codecs, tmp_path):
    (tmp_path / "ids.txt").write_text("seq3\nnobody\n")
    with pytest.raises(InputError, match="'nobody' is not among"):
        select(codecs["protein"], str(tmp_path / "ids.txt"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_give_items_too(codecs, kind, sampler):
    plan = pipeline.plan(codecs[kind], sampler=sampler)
    assert len(drawn(plan, 20)) == 20
    assert novelties(plan, 200).mean() == pytest.approx(plan.predicted_novelty(), abs=0.1)


@pytest.mark.parametrize("kind", ["protein", "image", "table"])
def test_native_samplers_keep_to_what_is_kept_and_repeat(codecs, kind):
    codec = codecs[kind]
    text = {"protein": "^seq1", "image": "lying", "table": "group=red"}[kind]
    plan = pipeline.plan(codec, keep=[text], target="native")
    items = drawn(plan, 12, seed=3)
    assert codec.same(items, drawn(plan, 12, seed=3)).all()
    assert not codec.same(items, drawn(plan, 12, seed=4)).all()
    memory = np.concatenate([batch.memory for batch in pipeline.batches(plan, 12, 3)])
    assert select(codec, text)[memory].all()
    assert plan.target == "native"
    assert np.isnan(plan.predicted_novelty())


def test_kinds_without_a_sampler_of_their_own_fall_back_on_p_beta(codecs):
    assert pipeline.plan(codecs["returns"], target="native").target == "paper"
    assert pipeline.plan(codecs["image"], fix=["1,1=200"], target="native").target == "native"


def test_fixing_needs_the_exact_sampler(codecs):
    with pytest.raises(InputError, match="needs --sampler exact"):
        pipeline.plan(codecs["table"], sampler="mala", fix=["age=40"])


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_items_are_the_first_of_more(codecs, kind, monkeypatch):
    monkeypatch.setattr(pipeline, "BLOCK", 16)
    codec = codecs[kind]
    plan = pipeline.plan(codec)
    few, more = drawn(plan, 21, seed=3), drawn(plan, 40, seed=3)
    assert codec.same(few, codec.take(more, np.arange(21))).all()
    other = drawn(plan, 21, seed=4)
    assert not codec.same(few, other).all()


def test_fixed_rows_follow_the_conditional_law(codecs):
    """Against rejection: of 400,000 draws those whose age lies within half a year of 40 by themselves."""
    codec = codecs["table"]
    plan = pipeline.plan(codec, beta=4.0)
    free = drawn(plan, 400_000)
    near = free[free["age"] == 40]
    held = drawn(pipeline.plan(codec, beta=4.0, fix=["age=40"]), len(near))
    n = len(near)
    assert n > 2_000
    for column in ("height", "score"):
        a, b = near[column].dropna(), held[column].dropna()
        assert abs(a.mean() - b.mean()) < 5 * a.std() * np.sqrt(2 / len(a)) + 0.02 * a.std()
        assert a.std() == pytest.approx(b.std(), rel=0.12)
    for group in ("red", "green", "blue"):
        p, q = (near["group"] == group).mean(), (held["group"] == group).mean()
        assert abs(p - q) < 5 * np.sqrt(2 * p * (1 - p) / n) + 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_files_repeat_byte_for_byte_and_read_back(codecs, kind, tmp_path):
    codec = codecs[kind]
    plan = pipeline.plan(codec)
    for format, endings in codec.formats.items():
        if format == "sheet" or (format == "parquet" and not _has_pyarrow()) or (kind, format) == ("table", "npy"):
            continue
        written = []
        for name in ("a", "b"):
            out = tmp_path / f"{name}-{format}{endings[0]}"
            outputs.write(plan, 30, 1, str(out), format, "source")
            files = sorted(out.rglob("*")) if out.is_dir() else [out]
            written.append([file.read_bytes() for file in files if file.name != "summary.json"])  # it names its place
        assert written[0] == written[1], format
        new = codec.read_new(out)
        again = drawn(plan, 30, 1)
        if kind == "returns":  # ten significant digits
            np.testing.assert_allclose(new, again, rtol=1e-9)
        else:
            assert codec.same(new, again).all()


def _has_pyarrow():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def test_large_items_come_in_small_blocks(codecs, monkeypatch):
    monkeypatch.setattr(pipeline, "BLOCK_NUMBERS", 3 * codecs["table"].p)
    sizes = [len(batch.items) for batch in pipeline.batches(pipeline.plan(codecs["table"]), 8, 0)]
    assert sizes == [3, 3, 2]
