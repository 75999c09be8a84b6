"""What a kind of data inherits: features, parts and equality of items, comparisons, galleries, blocks and counts."""

import pickle
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stochattn.cli.options import KindOptions
from stochattn.kinds import Batch, Codec, Display, Format, Generated, InputError, KeyMeasure, Kind, Measures, Settings
from stochattn.kinds.comparison import Comparison, Part, compare_features, correlations
from stochattn.kinds.display import GalleryItems, card_heading, lay_out, stored_name
from stochattn.kinds.hopfield import Coordinates
from stochattn.kinds.options import HopfieldOptions, NoOptions, given_options, listed, option, option_fields
from stochattn.kinds.registry import kind_names, kind_of
from stochattn.synthesizer import Synthesizer, drawing
from stochattn.synthesizer.drawing import Block
from stochattn.synthesizer.parts import Counts, Tally, write_items


@dataclass(frozen=True, eq=False)
class PlainCodec(Codec):
    """Whole numbers (n, ...), which are arrays and items."""

    stored: np.ndarray
    labels: tuple | None = None
    notes: tuple = ()

    @property
    def ids(self):
        return tuple(f"item {i + 1}" for i in range(len(self.stored)))

    def encode(self, items):
        return np.asarray(items)

    def decode(self, arrays, source=None):
        return arrays

    def refit(self, items):
        return PlainCodec(items)

    def state(self):
        return {"stored": self.stored}


class PlainKind(Kind):
    """A kind of data that defines what it must and nothing else."""

    name, item, items = "plain", "vector", "vectors"

    def read(self, path, options):
        raise InputError("there are no files.")

    def codec_from_state(self, state):
        return PlainCodec(**state)

    def writer(self, codec, destination, format, settings):
        return SimpleNamespace(write=destination.append, close=lambda: destination.append("end"))


KIND = PlainKind()


# Items


def test_features_are_vectors_of_floats():
    codec = PlainCodec(np.arange(24).reshape(2, 3, 4))
    found = codec.features(codec.stored)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.arange(24).reshape(2, 12))
    assert codec.K == 2


def test_items_are_taken_and_joined_in_order():
    codec = PlainCodec(np.arange(8).reshape(4, 2))
    np.testing.assert_array_equal(codec.take(codec.stored, [2, 0]), [[4, 5], [0, 1]])
    assert codec.join([codec.stored]) is codec.stored  # a single part is not copied
    np.testing.assert_array_equal(codec.join([codec.stored[:1], codec.stored[2:]]), codec.stored[[0, 2, 3]])


@pytest.mark.parametrize("collection", [list, tuple])
def test_items_in_lists_and_tuples_are_taken_and_joined(collection):
    codec, texts = PlainCodec(np.zeros((1, 1))), collection(["CC", "CO", "CCN", "C"])
    assert codec.take(texts, np.array([2, 0, 0])) == collection(["CCN", "CC", "CC"])
    assert codec.take(texts, np.array([True, False, False, True])) == collection(["CC", "C"])
    assert codec.join([texts[:1], texts[1:]]) == texts
    assert codec.join([texts]) is texts


def test_other_collections_need_methods_of_their_own():
    codec = PlainCodec(np.zeros((1, 1)))
    with pytest.raises(TypeError, match="PlainCodec must define take for items in a dict: the default is for arrays"):
        codec.take({"a": 1}, np.array([0]))
    with pytest.raises(TypeError, match="PlainCodec must define join for items in a set"):
        codec.join([{1}, {2}])


def test_plain_generators_are_fitted_and_others_are_asked_for():
    codec = PlainCodec(np.random.default_rng(0).normal(size=(12, 2, 3)))
    options = HopfieldOptions(beta=40.0, norm="whole", variance=0.9)
    generator = KIND.fit_generator("hopfield", codec, np.ones(12), options)
    expected = Coordinates.fit(codec.stored.reshape(12, 6), norm="whole", variance=0.9)
    np.testing.assert_array_equal(generator.stored_rows, expected.stored)
    assert generator.beta == 40.0
    given = generator.condition((np.array([1, 4]), np.array([0.25, -0.5]))).sample(5, np.random.default_rng(0)).values
    np.testing.assert_array_equal(given[:, [0, 1], [1, 1]], np.tile([0.25, -0.5], (5, 1)))
    gaussian = KIND.fit_generator("gaussian", codec, np.ones(12), NoOptions())
    assert gaussian.sample(3, np.random.default_rng(0)).values.shape == (3, 2, 3)
    with pytest.raises(NotImplementedError, match=r"PlainKind\.fit_generator must fit the generator 'other'"):
        KIND.fit_generator("other", codec, np.ones(12), NoOptions())


def test_files_are_recognized_by_their_suffixes(tmp_path):
    class Named(PlainKind):
        suffixes = (".vec",)

    assert Named().recognizes(tmp_path / "a.VEC")
    assert not Named().recognizes(tmp_path / "a.csv")
    (tmp_path / "folder.vec").mkdir()
    assert not Named().recognizes(tmp_path / "folder.vec")


def test_a_format_is_a_folder_if_its_extension_is_empty():
    assert Format("png", ("",)).is_folder
    assert not Format("csv", (".csv",)).is_folder


def test_parts_are_numbered_features_even_of_a_single_item():
    names, numbers = KIND.measures.parts(PlainCodec(np.arange(3)[None]))
    assert names == ("1", "2", "3")
    assert numbers.tolist() == [0, 1, 2]


def test_values_are_equal_up_to_rounding_errors():
    first = np.array([[1.0, 1.0, 1.0, 0.0, 0.0]])
    second = np.array([[1.0, 1 + 1e-10, 1 + 1e-7, 1e-13, 1e-3]])
    assert KIND.measures.same(PlainCodec(first), first, second).tolist() == [[True, True, False, True, False]]


def test_what_a_kind_does_not_define_has_no_effect():
    codec = PlainCodec(np.arange(8).reshape(4, 2), labels=("a", "b", "a", "b"))
    options = HopfieldOptions(beta=2.0)
    assert not KIND.accepts(codec.stored)
    assert KIND.evaluated_options(options) is options
    assert not KIND.measures.items_have_labels
    assert KIND.measures.labels_of(codec, codec.stored[:2], np.array([3, 0])).tolist() == ["b", "a"]
    assert KIND.measures.summarize({"identity": np.ones(2)}) == {}
    assert KIND.measures.non_overlapping(codec, np.array([2, 1])).tolist() == [2, 1]
    np.testing.assert_array_equal(KIND.measures.comparable(codec, codec.stored), codec.stored)


def test_a_measure_that_a_kind_replaces_leaves_the_others():
    codec = PlainCodec(np.arange(6.0).reshape(2, 3))
    measures = Measures(comparable=lambda codec, items: items[:, :1])
    assert measures.parts(codec)[0] == ("1",)  # one for each column that is compared
    np.testing.assert_array_equal(measures.predictors(codec, codec.stored), codec.stored)
    assert Display(style="p {}").controls(codec) == ()


class Former(PlainKind):
    """A kind that was written for version 0.1."""

    def recognises(self, path):
        return path.name == "former"

    key_measure = KeyMeasure("roughness", 0.3, "As smooth", "they are rough")
    style = "p {}"
    items_have_labels = True

    def same(self, codec, first, second):
        return first == second + self.shift

    def labels_of(self, codec, items, source):
        return np.full(len(items), "any")

    shift = 1


def test_members_of_earlier_versions_are_used_with_a_warning_that_names_the_new_place():
    codec = PlainCodec(np.arange(4).reshape(2, 2))
    with pytest.warns(DeprecationWarning, match=r"is now (in|called) Kind") as warned:
        kind = pickle.loads(pickle.dumps(Former()))
    about = {str(one.message).split()[0]: str(one.message) for one in warned}
    names = ("recognises", "key_measure", "style", "items_have_labels", "same", "labels_of")
    assert set(about) == {f"Kind.{name}" for name in names}
    assert about["Kind.recognises"] == "Kind.recognises is now called Kind.recognizes."
    assert kind.recognizes(Path("former"))
    assert not kind.recognizes(Path("other"))
    assert about["Kind.same"] == "Kind.same is now in Kind.measures, as 'same' of stochattn.kinds.Measures."
    assert kind.measures.key.name == "roughness"
    assert kind.display.style == "p {}"
    assert not kind.measures.same(codec, codec.stored, codec.stored).any()
    assert kind.measures.labels_of(codec, codec.stored, np.arange(2)).tolist() == ["any", "any"]
    assert Former.measures is Kind.measures  # other kinds keep their own


@pytest.mark.parametrize("name", ["key_measure", "parts", "labels_of", "items_have_labels", "gallery", "column_types"])
def test_members_are_read_under_their_earlier_names_with_a_warning(name):
    with pytest.warns(DeprecationWarning, match=rf"Kind\.{name} is now in Kind\.(measures|display)"):
        getattr(KIND, name)
    with pytest.warns(DeprecationWarning, match=r"Kind\.read_parts is now called Kind\.read_files"):
        assert KIND.read_parts == KIND.read_files
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = KIND.nonsense


# Comparisons


def value(comparison, name):
    return next(measure.value for measure in comparison.measures if measure.name == name)


def test_the_distance_of_a_comparison_is_the_mean_over_parts_that_have_one():
    parts = [Part(f"{i}", "", "", distance) for i, distance in enumerate((0.2, np.nan, 0.4))]
    assert Comparison((), tuple(parts)).distance == pytest.approx(0.3)
    assert np.isnan(Comparison((), tuple(parts[1:2])).distance)


def test_features_are_compared_one_by_one():
    stored, new = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[2.5], [2.5], [2.5], [9.0]])
    found = compare_features(new, stored)
    (part,) = found.parts
    assert part.name == "1"
    assert part.stored == "1.5 (0.15 to 2.85)"
    assert part.distance == 0.75  # three of four stored values lie below all new ones
    assert part.values().new.tolist() == new[:, 0].tolist()
    assert value(found, "feature distance") == 0.75
    assert np.isnan(value(found, "correlation error"))  # one feature has no correlation


def test_correlations_are_compared_among_features_that_vary_in_both():
    stored = np.array([[0.0, 0.0, 1.0, 5.0], [1.0, 1.0, 3.0, 5.0], [2.0, 2.0, 2.0, 5.0]])
    new = np.array([[0.0, 2.0, 7.0, 1.0], [1.0, 1.0, 7.0, 2.0], [2.0, 0.0, 7.0, 4.0]])
    # features 1 and 2 vary in both: correlation 1 among the stored, −1 among the new, in two of four entries
    assert value(compare_features(new, stored), "correlation error") == pytest.approx(1.0)
    assert np.isnan(value(compare_features(new[:2], stored), "correlation error"))  # two items always lie on a line


def test_correlations_agree_with_numpy_and_are_zero_for_columns_that_do_not_vary():
    rows = np.random.default_rng(0).standard_normal((50, 3)) * (1, 10, 100) + 5
    found = correlations(np.column_stack([rows, np.full(50, 0.1)]))
    np.testing.assert_allclose(found[:3, :3], np.corrcoef(rows.T), atol=1e-12)
    np.testing.assert_allclose(found[3], (0, 0, 0, 1), atol=1e-12)


# Galleries


def test_headings_of_cards_name_figures_and_the_stored_item():
    shown = GalleryItems(None, np.array([1233]), np.array([0]), np.array([0.25]), {"identity": np.array([0.5])})
    heading = card_heading(shown, 0, stored_name(("<a>",), None, 0))
    expected = "<h4><b>New 1,234</b> · novelty 0.25 · identity 50\u00a0% · nearest: <bdi>&lt;a&gt;</bdi></h4>"
    assert heading == expected


def test_long_classes_are_cut():
    assert stored_name(("a",), ("b" * 30,), 0) == f"<bdi>a</bdi> (<bdi>{'b' * 30}</bdi>)"
    assert stored_name(("a",), ("b" * 31,), 0) == f"<bdi>a</bdi> (<bdi>{'b' * 29}…</bdi>)"


def test_six_cards_are_open_and_the_others_folded():
    cards = [card_heading(GalleryItems(None, [i], [0], [0.0], {}), 0, stored_name(("a",), None, 0)) for i in range(8)]
    first, rest = "".join(cards[:6]), "".join(cards[6:])
    more = f'<details><summary>2 more</summary><div class="items">{rest}</div></details>'
    assert lay_out(cards, "items") == f'<div class="items">{first}</div>{more}'
    assert lay_out(cards[:6], "items") == f'<div class="items">{first}</div>'


def test_the_gallery_of_vectors_is_a_table_of_new_above_stored():
    codec = PlainCodec(np.array([[1.0, 2.0], [3.0, 4.0]]))
    shown = GalleryItems(np.array([[3.5, 1 / 3]]), np.array([6]), np.array([1]), np.array([0.25]), {})
    assert KIND.display.gallery(codec, shown) == (
        '<p class="note">Each new item above the stored item nearest to it.</p>'
        '<div class="wide" tabindex="0" role="group" aria-label="new items beside stored items"><table class="cells">'
        '<thead><tr><th scope="col">novelty</th><th scope="col">1</th><th scope="col">2</th></tr></thead><tbody>'
        '<tr class="new"><td><b>New 7</b> · 0.25</td><td>3.5</td><td>0.3333</td></tr>'
        '<tr class="old"><td><bdi>item 2</bdi></td><td>3</td><td>4</td></tr></tbody></table></div>'
    )


def test_the_gallery_of_vectors_shows_forty_features():
    codec = PlainCodec(np.zeros((2, 45)))
    page = KIND.display.gallery(codec, GalleryItems(codec.stored[:1], np.array([0]), np.array([1]), np.zeros(1), {}))
    assert page.count("<th ") == 1 + 40
    assert page.count("<td>") == 2 * (1 + 40)


# Blocks


def test_blocks_cover_all_items_once():
    synth, blocks = SimpleNamespace(block_size=4), [Block(0, 0, 4, 10), Block(1, 4, 4, 10), Block(2, 8, 2, 10)]
    draw = lambda synth, seed, block: block  # noqa: E731
    assert list(drawing.draw_blocks(draw, synth, 0, 10, None)) == blocks
    assert list(drawing.draw_blocks(draw, synth, 0, 10, None, range(1, 3))) == blocks[1:]


@pytest.mark.parametrize(
    ("declared", "size"),
    [
        ({}, 100),  # as many as allowed
        ({"block_items": 7}, 7),
        ({"numbers_per_item": 50}, 20),  # 1,000 numbers
        ({"numbers_per_item": 50, "block_items": 30}, 20),
        ({"numbers_per_item": 5000}, 1),  # at least one item
    ],
)
def test_blocks_are_limited_by_their_numbers_and_by_the_generator(monkeypatch, declared, size):
    monkeypatch.setattr(drawing, "BLOCK", 100)
    monkeypatch.setattr(drawing, "BLOCK_NUMBERS", 1000)
    synth = SimpleNamespace(codec=PlainCodec(np.zeros((3, 2))), generator=SimpleNamespace(**declared))
    assert Synthesizer.block_size.fget(synth) == size


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("draw", [drawing.draw_items, drawing.draw_batch])
def test_generators_are_fitted_before_they_are_sent_to_workers(monkeypatch, n_jobs, draw):
    events = []

    class Synth:
        block_size = 1

        def describe(self):
            events.append("fitted")

        @property
        def stored_rows(self):
            events.append("rows")

    @contextmanager
    def in_this_process(function, pieces, n_jobs):
        events.append("sent")
        yield iter(())

    monkeypatch.setattr(drawing, "in_workers", in_this_process)
    assert list(drawing.draw_blocks(draw, Synth(), 0, 2, n_jobs)) == []
    before = ["fitted", *(["rows"] if draw is drawing.draw_batch else [])] if n_jobs > 1 else []
    assert events == [*before, "sent"]


class Sorted(PlainKind):
    """Items say their own class, by their first value."""

    measures = Measures(labels=lambda codec, items: np.where(items[:, 0] > 0, "positive", "other"))


@dataclass
class Signs:
    """One positive number to every three others."""

    acceptance: float = 1.0
    asked: list = field(default_factory=list)

    def sample(self, n, rng):
        self.asked.append(n)
        return Generated((np.arange(n) % 4 == 0).astype(float)[:, None], None)


@pytest.mark.parametrize(("acceptance", "n"), [(1.0, 40_000), (0.5, 20_000), (0.01, 4096)])
def test_shares_of_classes_that_items_say_are_those_of_many_draws(acceptance, n):
    codec, generator = PlainCodec(np.zeros((3, 1)), ("positive", "other", "none")), Signs(acceptance)
    synth = SimpleNamespace(kind=Sorted(), codec=codec, decoder=codec, generator=generator)
    found = Synthesizer.predicted_shares(synth)
    assert list(found) == ["none", "other", "positive"]
    assert list(found.values()) == pytest.approx([0, 0.75, 0.25])
    assert generator.asked == [n]
    synth.codec = PlainCodec(np.zeros((3, 1)))
    assert Synthesizer.predicted_shares(synth) == {}  # no classes


# Counts


def counted(stored, items, nearest, labels=None, first=0, extra=None):
    """The counts of a batch of new items; each has a novelty of 0.5 as drawn and of 0.25 as it is in the file."""
    synth = SimpleNamespace(
        kind=KIND,
        codec=PlainCodec(stored, labels),
        novelty=lambda items: np.full(len(items), 0.25),
        kept=np.arange(len(stored)),
    )
    found, near = Tally(synth), np.array(nearest)
    found.add(Batch(first, items, near, np.full(len(items), 0.5), extra or {}, near))
    return found.counts


def test_items_of_a_batch_are_counted():
    stored = np.array([[0.0, 0.0, 0.0], [5.0, 5.0, 5.0], [9.0, 9.0, 9.0]])
    items = np.array([[0.0, 0.0, 0.0], [5.0, 7.0, 8.0], [9.0, 9.0, 9.0], [50.0, 9.0, 9.0]])
    found = counted(stored, items, [0, 1, 2, 2], ("a", "b", "b"))
    assert (found.n, found.measured, found.copies, found.near_copies) == (4, 4, 2, 3)
    assert found.novelty == [2.0]
    assert found.novelty_decoded == [1.0]
    assert found.classes == {"a": 1, "b": 3}


def test_items_without_a_source_have_only_a_number():
    found = Tally(SimpleNamespace(kind=KIND, codec=PlainCodec(np.zeros((2, 1)))))
    found.add(Batch(0, np.zeros((3, 1)), None, None, {}, None))
    assert found.counts == Counts(n=3)


def test_near_copies_are_closer_than_one_percent_of_the_stored_items_are_to_each_other():
    """The stored distances to the nearest other item are 1, 1, 2, 3, …, 100, and 0 for a pair of duplicates."""
    stored = np.cumsum(np.arange(101.0))[:, None]
    far = np.full((2, 1), 1e6)
    for known in (stored, np.concatenate([stored, far])):
        apart = np.array([0.9, 1.0, 2.2])[:, None]
        assert counted(known, known[[50] * 3] + apart, [50] * 3).near_copies == 1


def test_two_stored_items_have_a_distance_and_one_or_equal_ones_have_none():
    items = np.array([[0.0], [3.0], [9.0]])
    assert counted(np.array([[0.0], [4.0]]), items, [0, 0, 0]).near_copies == 2
    assert counted(np.array([[0.0]]), items, [0, 0, 0]).near_copies == 0
    assert counted(np.array([[0.0], [0.0]]), items, [0, 0, 0]).near_copies == 0


def test_only_the_first_items_are_measured_and_summarized():
    stored, items = np.array([[0.0], [1.0]]), np.zeros((4, 1))
    assert counted(stored, items, [0] * 4, first=4094).measured == 2
    assert counted(stored, items, [0] * 4, first=5000).measured == 0
    column = {"score": np.arange(4.0)}
    (found,) = counted(stored, items, [0] * 4, first=2**20 - 2, extra=column).columns["score"]
    assert found.tolist() == [0, 1]
    (none,) = counted(stored, items, [0] * 4, first=2**20 + 9, extra=column).columns["score"]
    assert none.tolist() == []


def test_items_are_written_and_counted_with_progress():
    written, seen = [], []
    synth = SimpleNamespace(kind=KIND, codec=PlainCodec(np.zeros((2, 1))))
    parts = [Batch(first, np.zeros((3, 1)), None, None, {}, None) for first in (0, 3)]
    progress = SimpleNamespace(update=seen.append)
    found = write_items(synth, parts, written, Format("a", (".a",)), Settings(0, "plain", ""), progress)
    assert (found.n, seen, written) == (6, [3, 6], [*parts, "end"])


# Options


def test_long_lists_say_how_many_more_there_are():
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


def test_options_have_defaults_and_help():
    @dataclass(frozen=True)
    class Options:
        scale: dict = option({"a": 1}, "Factors.", metavar="NAME=FACTOR")  # noqa: RUF009
        size: int = option(3, "Size.")
        other: int = 4

    first, second = Options(), Options()
    first.scale["b"] = 2
    assert second == Options({"a": 1}, 3)  # instances share no dictionary
    assert {name: about.text for name, about in option_fields(Options).items()} == {
        "scale": "Factors.",
        "size": "Size.",
    }
    assert option_fields(Options)["scale"].metavar == "NAME=FACTOR"
    assert given_options(Options(size=5)) == {"size": 5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 2.0, "novelty": 0.1}, "beta and novelty must not both be given; got beta=2.0 and novelty=0.1"),
        ({"beta": "best"}, "beta must be"),
        ({"beta": -1.0}, "beta must be"),
        ({"novelty": 0.0}, "novelty must be"),
        ({"sampler": "best"}, "sampler must be"),
    ],
    ids=str,
)
def test_impossible_options_of_hopfield_are_named_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        HopfieldOptions(**options)


@pytest.mark.parametrize("options", [{"beta": 2.0}, {"novelty": 0.1}, {"beta": "leave-one-out"}, {}], ids=str)
def test_possible_options_of_hopfield(options):
    assert given_options(HopfieldOptions(**options)) == options


def test_options_with_choices_show_them_in_help_texts():
    forms = {one.flag: one.form for one in KindOptions.of([kind_of(name) for name in kind_names()]).options}
    assert forms["--values"] == "auto|prices|returns"
    assert forms["--fill"] == "none|previous"
    assert forms["--output"] == "returns|prices"
    assert forms["--marginals"] == "calibrated|free"
    assert forms["--norm"] == "restored|paper|whole"
    assert forms["--gaps"] == "zeros|symbol"


def test_earlier_names_of_methods_of_codecs_work_with_a_warning():
    with pytest.deprecated_call(match="Codec.both is now called Codec.combine"):

        class Older(PlainCodec):
            def both(self, name, first, second):
                return "combined"

    codec = Older(np.zeros((3, 2)))
    assert codec.combine("a", 1, 2) == "combined"
    with pytest.deprecated_call(match="Codec.checked is now called Codec.check_items"):
        assert codec.checked([1]) == [1]
    with pytest.raises(AttributeError, match="'Older' object has no attribute 'nonsense'"):
        _ = codec.nonsense
