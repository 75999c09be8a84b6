"""From items to items, for every built-in kind of data: novelty, classes, conditions and blocks, by the exact law."""

import numpy as np
import pytest
from distributed.protocol import pickle

import stochattn as sa
from stochattn.cli.commands import parse_weight, select
from stochattn.evaluation.inspection import round_trip_loss
from stochattn.kinds import InputError
from stochattn.synthesizer import drawing

KINDS = ("protein", "image", "table", "returns", "signals")


@pytest.fixture(scope="module")
def synths(inputs):
    """p_beta over the stored items of each kind, with all of their variance, at the natural beta."""

    class Fitted(dict):
        def __missing__(self, kind):
            self[kind] = sa.fit(inputs[kind], generator="hopfield", **({"variance": 1.0} if kind == "protein" else {}))
            return self[kind]

    return Fitted()


def hopfield(synth, **options):
    """The same stored items under other options of p_beta."""
    variance = {"variance": 1.0} if synth.kind.name == "protein" else {}
    return synth.with_generator("hopfield", **variance, **options)


def novelties(synth, n, seed=0):
    return np.concatenate([batch.novelty for batch in synth.batches(n, seed)])


def sources(synth, n, seed=0):
    return np.concatenate([batch.source for batch in synth.batches(n, seed)])


def selected(synth, text):
    return select(synth.kind, synth.codec, text)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_items_are_decoded_exactly(synths, kind):
    loss = round_trip_loss(synths[kind])
    assert loss.items == 1
    assert loss.values == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_any_possible_novelty_is_reached(synths, kind, share):
    # 20,000 draws leave a standard error below 0.0015 (novelty spreads by less than 0.2): 0.01 is six of them.
    highest = hopfield(synths[kind], beta=1e-6).predicted_novelty()
    synth = hopfield(synths[kind], novelty=share * highest)
    assert novelties(synth, 20_000).mean() == pytest.approx(share * highest, abs=0.01)
    # Signs of the market of returns are predicted from 4,096 draws, and change in steps as beta does.
    tolerance = 1e-4 if kind == "returns" else 1e-6
    assert synth.predicted_novelty() == pytest.approx(share * highest, abs=tolerance)


def test_novelty_is_measured_on_items_of_positive_weight(synths):
    synth = hopfield(synths["image"], beta=30.0).subset("lying")
    codec = synth.codec
    every = synth.rows(codec.stored)  # half of the stored items have weight zero and count as new
    kept = every[np.array(codec.labels) == "lying"]
    expected = [1 - max(row @ m / np.linalg.norm(row) / np.linalg.norm(m) for m in kept) for row in every]
    np.testing.assert_allclose(synth.novelty(codec.stored), expected, atol=1e-9)


def test_draws_of_residues_differ_by_block_and_by_seed(synths, monkeypatch):
    monkeypatch.setattr(drawing, "BLOCK", 8)
    noisy = hopfield(synths["protein"], beta=1e12, decode_temperature=1.0)
    cold = noisy.subset(selected(noisy, "^seq1$"))  # one memory without noise: only drawing residues differs
    drawn = cold.sample_items(16, 0)
    assert not np.array_equal(drawn[:8], drawn[8:])
    assert not np.array_equal(cold.sample_items(8, 0), cold.sample_items(8, 1))


def test_novelty_is_reached_with_a_condition(synths):
    synth = hopfield(synths["table"], novelty=0.15).condition(age=40)
    assert novelties(synth, 20_000).mean() == pytest.approx(0.15, abs=0.01)
    assert (synth.sample(100, rng=0)["age"] == 40).all()
    with pytest.raises(ValueError, match=r"=0.0001 is out of reach under this condition, which allows 0\.\d\d to"):
        hopfield(synths["table"], novelty=0.0001).condition(age=40).sample(1, rng=0)


def test_an_impossible_novelty_is_an_error_with_the_range(synths):
    with pytest.raises(ValueError, match="novelty must lie between"):
        hopfield(synths["protein"], novelty=0.999).sample(1, rng=0)
    with pytest.raises(ValueError, match="beta and novelty must not both be given"):
        hopfield(synths["protein"], novelty=0.2, beta=3.0).sample(1, rng=0)


@pytest.mark.parametrize(("kind", "label"), [("image", "lying"), ("table", "green")])
def test_subset_and_weight_move_class_shares_to_those_of_the_exact_law(synths, kind, label):
    cold = hopfield(synths[kind], beta=50.0)
    labels = np.array(cold.codec.labels)
    weighted = cold.weight(5.0, label)
    r = np.where(labels == label, 5.0, 1.0)
    expected = r[labels == label].sum() / r.sum()  # with unit rows and with equal weights, weights are given by r only
    # A row has its own class, predicted from 40,000 draws: five standard errors. At this beta hardly one changes it.
    near = 5 * np.sqrt(expected * (1 - expected) / 40_000) if kind == "table" else 1e-9
    assert weighted.predicted_shares()[label] == pytest.approx(expected, abs=near)
    share = (labels[sources(weighted, 20_000)] == label).mean()
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)
    assert set(labels[sources(cold.subset(label), 200)]) == {label}


def test_selections(synths, tmp_path):
    family, table = synths["protein"], synths["table"]
    assert selected(family, "^seq1").sum() == 11  # seq1, seq10 … seq19
    (tmp_path / "ids.txt").write_text("seq3\nseq5\n")
    np.testing.assert_array_equal(np.flatnonzero(selected(family, str(tmp_path / "ids.txt"))), [3, 5])
    frame = table.codec.stored
    np.testing.assert_array_equal(selected(table, "group=red"), np.asarray(frame["group"] == "red"))
    age = int(frame["age"].iloc[0])
    np.testing.assert_array_equal(selected(table, f"age={age}"), np.asarray(frame["age"] == age))
    ratio, chosen = parse_weight(family.kind, family.codec, "^seq1:2.5")
    assert (chosen.sum(), ratio) == (11, 2.5)


def test_an_id_selects_itself_and_not_the_longer_ids_that_contain_it(synths):
    family = synths["protein"]
    np.testing.assert_array_equal(np.flatnonzero(selected(family, "seq1")), [1])
    assert selected(family, "seq1.").sum() == 10  # seq10 … seq19
    ratio, chosen = parse_weight(family.kind, family.codec, "seq1:2.5")
    assert (np.flatnonzero(chosen).tolist(), ratio) == ([1], 2.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nobody", "matches none"),
        ("(", "not a regular expression"),
        ("height=1", "matches none"),
        ("no=1", "no column 'no'"),
    ],
)
def test_selections_of_nothing(synths, text, said):
    with pytest.raises(InputError, match=said):
        selected(synths["table"], text)


def test_an_unknown_class_is_an_error_that_lists_the_classes(synths):
    images = synths["image"]
    with pytest.raises(InputError, match="classes are lying, standing"):
        selected(images, "flying")
    with pytest.raises(InputError, match="a selection and a positive ratio"):
        parse_weight(images.kind, images.codec, "lying")


def test_ids_of_a_list_must_exist(synths, tmp_path):
    (tmp_path / "ids.txt").write_text("seq3\nnobody\n")
    with pytest.raises(InputError, match="'nobody' is not among"):
        selected(synths["protein"], str(tmp_path / "ids.txt"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", ["ula", "mala"])
def test_chains_give_items_too(synths, kind, sampler):
    synth = hopfield(synths[kind], sampler=sampler)
    assert len(synth.sample(20, rng=0)) == 20
    assert novelties(synth, 200).mean() == pytest.approx(synth.predicted_novelty(), abs=0.1)


@pytest.mark.parametrize(("kind", "text"), [("protein", "^seq1"), ("image", "lying"), ("table", "group=red")])
def test_generators_of_a_kind_draw_around_the_subset_and_have_no_predicted_novelty(synths, kind, text):
    synth = synths[kind].with_generator()
    chosen = selected(synth, text)
    assert synth.choice.name != "hopfield"
    assert chosen[sources(synth.subset(chosen), 12, seed=3)].all()
    assert np.isnan(synth.predicted_novelty())


def test_conditions_need_the_exact_sampler(synths):
    with pytest.raises(ValueError, match="conditions need exact draws"):
        hopfield(synths["table"], sampler="mala").condition(age=40)


def test_conditioned_rows_follow_the_conditional_law(synths):
    """Against rejection: the draws among 400,000 whose age is within half a year of 40."""
    synth = hopfield(synths["table"], beta=4.0)
    free = synth.sample(400_000, rng=0)
    near = free[free["age"] == 40]
    n = len(near)
    conditioned = synth.condition(age=40).sample(n, rng=0)
    assert n > 2_000
    for column in ("height", "score"):
        a, b = near[column].dropna(), conditioned[column].dropna()
        assert abs(a.mean() - b.mean()) < 5 * a.std() * np.sqrt(2 / len(a)) + 0.02 * a.std()
        assert a.std() == pytest.approx(b.std(), rel=0.12)
    for group in ("red", "green", "blue"):
        p, q = (near["group"] == group).mean(), (conditioned["group"] == group).mean()
        assert abs(p - q) < 5 * np.sqrt(2 * p * (1 - p) / n) + 0.01


def test_large_items_are_sampled_in_small_blocks(synths, monkeypatch):
    synth = synths["table"]
    width = synth.codec.features(synth.codec.stored).shape[1]
    monkeypatch.setattr(drawing, "BLOCK_NUMBERS", 3 * width)
    assert [len(batch.items) for batch in synth.batches(8, 0)] == [3, 3, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("generator", ["auto", "hopfield"])
def test_a_synthesizer_travels_to_the_workers_of_a_cluster(synths, kind, generator):
    synth = synths[kind] if generator == "hopfield" else synths[kind].with_generator()
    there = pickle.loads(pickle.dumps(synth))
    for first, second in zip(synth.batches(7, 1), there.batches(7, 1, blocks=range(1)), strict=True):
        assert np.array_equal(synth.codec.encode(first.items), synth.codec.encode(second.items))


def test_any_block_can_be_drawn_by_itself(synths, monkeypatch):
    synth = synths["table"]
    monkeypatch.setattr(drawing, "BLOCK", 4)
    whole, last = list(synth.batches(10, 0)), list(synth.batches(10, 0, blocks=range(1, 3)))
    assert [batch.first for batch in last] == [4, 8]
    for expected, found in zip(whole[1:], last, strict=True):
        assert expected.items.equals(found.items)
