"""Kernels within classes: shares, gaps, conditions, density, choice by likelihood, and stratified draws."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid

import stochattn as sa
from stochattn._backend.console import Progress
from stochattn.core.mixture import pick_stratified
from stochattn.kinds import InputError
from stochattn.kinds.tables.generator import fit as covariance_fit
from stochattn.kinds.tables.generator.class_fit import N_PIECES, ClassRows, fit_class_map, list_classes
from stochattn.kinds.tables.generator.classes import ClassKernels, MonotoneMap, affine
from stochattn.kinds.tables.generator.covariance import CovarianceGenerator
from stochattn.kinds.tables.generator.fit import list_widths, measure_nearness
from stochattn.kinds.tables.generator.neighborhoods import KernelParams


def flowers(n=40, seed=0):
    """Three classes of different shape, the first far from the others in `width`."""
    rng = np.random.default_rng(seed)
    parts = []
    for name, center, slope in (("a", 0.3, 0.5), ("b", 1.4, -0.5), ("c", 2.0, 0.0)):
        x = rng.normal(size=n)
        width = center + 0.1 * rng.normal(size=n)
        y = slope * x + 0.2 * rng.normal(size=n)
        parts.append(pd.DataFrame({"width": width.round(1), "x": x.round(3), "y": y.round(3), "species": name}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def synth():
    return sa.fit(flowers(), "table")


def test_classes_are_chosen_by_likelihood_and_described(synth):
    assert isinstance(synth.generator, ClassKernels)
    said = synth.describe().summary
    assert said.endswith(", within its class of 'species' (chosen by the likelihood of left-out rows)")
    assert synth.describe().resolved["classes"] == "species"


def test_kernels_around_all_rows_are_taken_where_they_are_likelier(monkeypatch):
    monkeypatch.setattr(covariance_fit, "measure_gain", lambda rows, pooled, within: -1.0)
    found = sa.fit(flowers(), "table")
    assert isinstance(found.generator, CovarianceGenerator)
    assert found.describe().resolved["classes"] == "pooled"


def test_the_most_informative_category_is_used_where_no_label_is_named():
    rng = np.random.default_rng(2)
    frame = flowers().rename(columns={"species": "kind"}).assign(coin=rng.choice(["h", "t"], 120))
    synth = sa.fit(frame, "table")
    assert synth.codec.label is None
    assert synth.describe().resolved["classes"] == "kind"


def test_classes_have_their_stored_shares_exactly_and_gaps_stay_empty(synth):
    new = synth.sample(120, rng=0)
    assert new["species"].value_counts().to_dict() == {"a": 40, "b": 40, "c": 40}
    rows, stored = synth.sample(3000, rng=1), flowers()
    largest = stored.loc[stored["species"] == "a", "width"].max()
    beyond = rows.loc[rows["species"] == "a", "width"] > largest + 0.1
    # With ranks of all rows, a tenth of the first class would have the widths of the others.
    assert beyond.mean() < 0.01
    assert rows["width"].between(largest + 0.2, 0.9).mean() < 0.01


def test_each_class_keeps_its_own_correlation(synth):
    rows = synth.sample(3000, rng=2)
    found = [rows.loc[rows["species"] == name, ["x", "y"]].corr().iloc[0, 1] for name in "abc"]
    assert found[0] > 0.7
    assert found[1] < -0.7
    assert abs(found[2]) < 0.35  # forty rows: a standard error of 0.16


def test_the_density_is_normalised_over_classes_and_features():
    """∫ p(class, x) dx over a grid of scores, summed over classes, is 1; the grid makes an error below 1e-3."""
    frame = flowers()[["x", "species"]]
    generator = sa.fit(frame, "table", classes="species").generator
    grid = np.linspace(-12, 12, 40_001)
    total = 0.0
    for part in generator.parts:
        features = np.concatenate([grid[:, None], np.tile(part.label, (len(grid), 1))], axis=1)
        total += trapezoid(np.exp(generator.log_density(features)), grid)
    assert total == pytest.approx(1, abs=2e-3)


def test_conditions_on_the_class_values_and_ranges(synth):
    assert set(synth.condition(species="b").sample(50, rng=0)["species"]) == {"b"}
    assert set(synth.condition(species={"a", "c"}).sample(80, rng=0)["species"]) == {"a", "c"}
    rows = synth.condition(width=0.3).sample(60, rng=0)
    assert (rows["width"] == 0.3).all()
    assert set(rows["species"]) == {"a"}  # no other class has such widths
    rows = synth.condition(width=sa.Range(ge=1.9), x=sa.Range(ge=0)).sample(200, rng=0)
    assert ((rows["width"] >= 1.9) & (rows["x"] >= 0)).all()
    assert (rows["species"] == "c").mean() > 0.8
    with pytest.raises(ValueError, match="before condition"):
        synth.condition(species="b").log_density(flowers())


def test_draws_given_a_range_have_the_shares_of_draws_that_meet_it(synth):
    """Null: both have the same share of class b; with 3,000 draws each, |z| > 4.5 in 1 of 150,000 runs."""
    wanted = sa.Range(ge=1.5, le=1.8)
    free = synth.sample(30_000, rng=5)
    free = free[free["width"].between(1.5, 1.8)]["species"]
    given = synth.condition(width=wanted).sample(3000, rng=6)["species"]
    p, q = (free == "b").mean(), (given == "b").mean()
    assert abs(p - q) < 4.5 * np.sqrt(p * (1 - p) * (1 / len(free) + 1 / len(given)))


def test_few_draws_are_the_first_of_more_and_saved_ones_the_same(synth, tmp_path):
    pd.testing.assert_frame_equal(synth.sample(30, rng=4), synth.sample(70, rng=4)[:30])
    pd.testing.assert_frame_equal(synth.sample(60, rng=4, n_jobs=2), synth.sample(60, rng=4))
    synth.save(tmp_path / "flowers.synth")
    pd.testing.assert_frame_equal(sa.load(tmp_path / "flowers.synth").sample(30, rng=4), synth.sample(30, rng=4))


def test_weights_and_subsets_change_shares(synth):
    only = synth.subset("a").sample(30, rng=0)
    assert set(only["species"]) == {"a"}
    more = synth.weight(4, "a").sample(3000, rng=0)["species"].value_counts(normalize=True)
    assert more["a"] == pytest.approx(4 / 6, abs=0.03)


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ("specis", "no column of categories 'specis'. Did you mean 'species'"),
        ("x", "Name one of"),
        (3, "got 3"),
    ],
)
def test_wrong_classes_are_refused(classes, said):
    with pytest.raises(InputError, match=said):
        _ = sa.fit(flowers(), "table", classes=classes).generator


def test_classes_of_few_rows_borrow_their_shape():
    frame = pd.concat([flowers(), pd.DataFrame({"width": [3.0], "x": [0.0], "y": [0.0], "species": ["d"]})])
    rows = sa.fit(frame, "table", classes="species").sample(1000, rng=0)
    single = rows[rows["species"] == "d"]
    assert 2 <= len(single) <= 20
    assert single["x"].nunique() > 1


def test_pooled_kernels_and_classes_of_one_width_can_be_asked_for():
    assert isinstance(sa.fit(flowers(), "table", classes="pooled").generator, CovarianceGenerator)
    found = sa.fit(flowers(), "table", classes="species", width=(0.3, 0.6, 0)).generator
    assert isinstance(found, ClassKernels)
    assert (found.width, found.searched) == (KernelParams(0.3, 0.6, 0), False)


def test_stratified_choices_use_each_kernel_once_in_a_round_and_keep_weights():
    equal = pick_stratified(np.full(50, -np.log(50)), 125, np.random.default_rng(0))
    assert sorted(equal[:50]) == sorted(equal[50:100]) == list(range(50))
    assert len(set(equal[100:])) == 25
    assert (pick_stratified(np.full(50, -np.log(50)), 60, np.random.default_rng(0)) == equal[:60]).all()
    w = np.array([0.7, 0.2, 0.1])
    shares = np.bincount(pick_stratified(np.log(w), 30_000, np.random.default_rng(1)), minlength=3) / 30_000
    np.testing.assert_allclose(shares, w, atol=0.01)


def test_monotone_maps_are_inverted_and_have_the_slopes_of_differences():
    knots = (np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.0, 5.0]))
    both = MonotoneMap((knots, None))
    x = np.column_stack([np.linspace(-2, 5, 15) + 0.01, np.arange(15.0)])
    np.testing.assert_allclose(both.inverse(both.forward(x)), x, atol=1e-12)
    np.testing.assert_allclose(both.forward(np.array([[2, 7]])), [[2.5, 7.0]])  # of whole numbers, too
    moved = x + np.array([1e-6, 0.0])
    slope = (both.forward(moved) - both.forward(x))[:, 0] / 1e-6
    np.testing.assert_allclose(both.log_slope(x), np.log(slope), atol=1e-4)
    scores = affine(np.array([2.0]), np.array([4.0]), [0]).forward(np.array([[6.0], [2.0], [-2.0], [-6.0]]))
    np.testing.assert_allclose(scores, [[1.0], [0.0], [-1.0], [-2.0]])


def test_a_class_that_is_never_drawn_has_no_density(synth):
    names = sorted(set(synth.codec.stored["species"]))
    rows = synth.codec.stored.groupby("species").head(1)
    density = synth.subset(synth.codec.stored["species"] != names[0]).log_density(rows)
    np.testing.assert_array_equal(np.isneginf(density), rows["species"] == names[0])


def crabs(n=30, seed=3):
    """Two columns of categories that matter together: the sign of the slope is that of their product."""
    rng = np.random.default_rng(seed)
    parts = []
    for sort, a in (("blue", -1), ("orange", 1)):
        for sex, b in (("F", -1), ("M", 1)):
            x = rng.normal(size=n)
            y = a * b * x + 0.15 * rng.normal(size=n)
            parts.append(pd.DataFrame({"x": x.round(3), "y": y.round(3), "sort": sort, "sex": sex}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def combined():
    return sa.fit(crabs(), "table", label="sort")


def test_combinations_of_categories_are_classes_where_left_out_rows_are_likelier(combined, tmp_path):
    assert combined.describe().resolved["classes"] == "sort + sex"
    assert "within its class of 'sort' and 'sex'" in combined.describe().summary
    rows = combined.sample(1200, rng=0)
    assert rows.groupby(["sort", "sex"]).size().tolist() == [300] * 4
    for (sort, sex), own in rows.groupby(["sort", "sex"]):
        sign = 1 if (sort == "orange") == (sex == "M") else -1
        assert sign * own["x"].corr(own["y"]) > 0.9
    combined.save(tmp_path / "crabs.synth")
    pd.testing.assert_frame_equal(sa.load(tmp_path / "crabs.synth").sample(9, rng=1), combined.sample(9, rng=1))
    named = sa.fit(crabs(), "table", classes="sex+sort")
    assert named.describe().resolved["classes"] == "sort + sex"


def test_conditions_on_one_of_two_columns_of_classes_on_both_and_on_numbers(combined):
    assert set(combined.condition(sex="F").sample(60, rng=0)["sex"]) == {"F"}
    assert set(combined.condition(sex="F").sample(60, rng=0)["sort"]) == {"blue", "orange"}
    rows = combined.condition(sex="M", sort={"blue"}).sample(60, rng=0)
    assert set(rows["sex"]) == {"M"}
    assert set(rows["sort"]) == {"blue"}
    rows = combined.condition(x=1.5, y=1.5).sample(80, rng=0)
    assert ((rows["x"] == 1.5) & (rows["y"] == 1.5)).all()
    assert ((rows["sort"] == "orange") == (rows["sex"] == "M")).all()  # the slope is negative elsewhere
    given = combined.condition(x=0.333, y=-0.271).generator  # maps there and back would change the last bit
    positions, values = given.fixed
    drawn = given.sample(50, np.random.default_rng(0)).values[:, positions]
    np.testing.assert_array_equal(drawn, np.tile(values, (50, 1)))  # to the last bit


def test_the_density_of_combinations_is_that_of_their_classes(combined):
    """A row is likelier, by many nats, with the combination it has than with the same numbers in another class."""
    own = crabs()
    other = own.assign(sex=own["sex"].map({"F": "M", "M": "F"}))
    steep = own["x"].abs() > 1
    assert (combined.log_density(own) - combined.log_density(other))[steep].min() > 2


def test_combinations_that_no_row_has_are_not_classes():
    frame = crabs()
    gone = frame[~((frame["sort"] == "blue") & (frame["sex"] == "M"))]
    assert " + " not in str(sa.fit(gone, "table", label="sort").describe().resolved["classes"])


def test_at_least_one_column_varies_within_classes():
    frame = crabs()[["sort", "sex"]]
    synth = sa.fit(frame, "table", label="sort")
    assert synth.describe().resolved["classes"] in ("sort", "pooled")
    assert synth.sample(40, rng=0).shape == (40, 2)
    (note,) = sa.fit(frame, "table", classes="sort + sex").describe().notes
    assert note == "classes=sort + sex: no other column varies within them, so that kernels are fitted around all rows"


def test_a_note_says_where_classes_that_were_asked_for_are_not_fitted():
    frame = flowers()
    few = sa.fit(frame.iloc[::20], "table", classes="species").describe()
    reason = "needs 8 rows with positive weight, and there are 6"
    assert f"classes=species: {reason}, so that kernels are fitted around all rows" in few.notes
    one = sa.fit(frame, "table", classes="species").subset(frame["species"] == "a")
    assert "has one value among the rows with positive weight" in one.describe().notes[0]
    half = sa.fit(frame, "table", classes="species").refit(np.arange(40))  # a constant column is no longer modeled
    assert "has one value" in half.describe().notes[0]
    assert "has one value" in half.condition(x=0.5).describe().notes[0]


def test_maps_of_a_class_are_straight_between_few_quantiles_of_its_numbers(synth):
    codec = synth.codec
    features, rows = codec.filling.filled, np.arange(40)
    one = fit_class_map(codec.columns, features, rows, features.std(0))
    numbers = codec.stored["x"].to_numpy()
    order = np.argsort(numbers)
    order = order[np.diff(numbers[order], prepend=-np.inf) > 1e-3]
    slopes = np.diff(one.forward(features)[order, 1]) / np.diff(numbers[order])
    changes = np.abs(np.diff(slopes)) > 1e-6 * np.abs(slopes[1:])
    # A change of slope within a step between two numbers shows in the step before and after it.
    assert 2 <= changes.sum() <= 2 * N_PIECES


def test_a_column_that_is_constant_in_a_class_stays_so():
    frame = flowers().assign(count=lambda f: np.where(f["species"] == "b", 3, np.arange(120) % 7))
    rows = sa.fit(frame, "table", classes="species").sample(3000, rng=0)
    assert (rows.loc[rows["species"] == "b", "count"] == 3).mean() > 0.995


def test_widths_are_tried_from_less_noise_to_larger_neighborhoods():
    found = list_widths(KernelParams(0.2, 0.5, 20), 100)
    assert found[:4] == [KernelParams(s, 0.5, 20) for s in (0.05, 0.1, 0.15, 0.2)]
    assert found[4:] == [KernelParams(0.2, 0.5, 30), KernelParams(0.2, 0.5, 50)]
    assert list_widths(KernelParams(0.1, 0.5, 0), 100) == [KernelParams(0.05, 0.5, 0), KernelParams(0.1, 0.5, 0)]


def test_nearness_is_one_for_true_rows_and_counts_ties_by_their_share():
    real = np.arange(1.0, 101.0)
    assert measure_nearness(real, real) == pytest.approx(1)
    assert measure_nearness(np.zeros(50), real) == pytest.approx((1 / 0.01 + 1 / 0.02 + 1 / 0.03) / 3)
    assert measure_nearness(np.full(50, 99.0), real) == 0
    assert measure_nearness(np.ones(30), np.ones(100)) == pytest.approx(1)


def test_new_rows_are_as_far_from_stored_rows_as_these_from_each_other():
    from stochattn.core.neighbors import nearest_distances

    synth = sa.fit(flowers(), "table")
    features = synth.codec.encode(flowers())
    new = synth.codec.encode(synth.sample(1000, rng=8))
    # The likeliest noise may give 2, and with 1,000 draws, a share of 2 % has a standard error of 22 %.
    assert measure_nearness(nearest_distances(new, features), nearest_distances(features)) < 3
    copies = synth.codec.encode(synth.with_generator(width=(0.01, 1.0, 0), classes="species").sample(1000, rng=8))
    assert measure_nearness(nearest_distances(copies, features), nearest_distances(features)) > 6


@pytest.fixture(scope="module")
def plain():
    """Kernels of a width that is given, within classes of which the last has four rows."""
    few = pd.DataFrame({"width": [3.0, 3.1, 3.2, 3.3], "x": np.arange(4.0), "y": [0.0, 1.0, 2.0, 4.0], "species": "d"})
    return sa.fit(pd.concat([flowers(), few]), "table", classes="species", width=(0.1, 0.5, 0))


def test_a_width_that_is_given_is_described_so(plain):
    assert plain.describe().summary.endswith(", within its class of 'species' (as given)")


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"x": 0.1}, []),
        ({"species": "a"}, []),
        ({"x": 5.0}, ["unlike anything stored", "stored rows explain"]),
        ({"species": "a", "x": 2.2, "y": 1.1, "width": 0.3}, ["unlike anything stored", "stored rows explain"]),
        ({"species": "d", "x": 3.0}, []),  # few rows explain it, and the class has no more
    ],
    ids=str,
)
def test_notes_on_conditions_within_classes(plain, conditions, said):
    notes = plain.condition(conditions).describe().notes
    assert len(notes) == len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True))


def test_a_range_that_is_rarely_met_within_a_class_is_noted(plain):
    assert "one in a billion" in plain.condition(x=sa.Range(ge=3.2), species="a").describe().notes[0]
    assert plain.condition(x=sa.Range(ge=0.0), species="a").describe().notes == ()


def test_a_range_that_only_some_classes_meet_is_as_rare_as_among_all_draws(synth):
    """A third of the rows has a width above 1.7, and hardly any row of the first class has."""
    notes = synth.condition(width=sa.Range(gt=1.7)).describe().notes
    assert not [note for note in notes if "ranges and sets" in note], notes
    beside = synth.condition(width=sa.Range(gt=1.7), x=0.1).describe().notes
    assert not [note for note in beside if "ranges and sets" in note], beside
    n, rare = 200_000, synth.condition(x=sa.Range(gt=3.6)).describe().notes
    (said,) = [note for note in rare if "ranges and sets" in note]
    share = 1 / float(said.split("1 in ")[1].split()[0].replace(",", ""))
    expected = (synth.sample(n, rng=0).x > 3.6).mean()
    assert abs(share - expected) < 0.05 * share + 5 * np.sqrt(share / n)  # two digits are given, and five errors


def test_a_class_is_conditioned_together_with_a_large_number_that_comes_after_it():
    frame = flowers()[["species", "x", "width", "y"]]
    rows = (
        sa.fit(frame, "table", classes="species", width=(0.5, 0.5, 0)).condition(species="b", x=2.4).sample(20, rng=0)
    )
    assert set(rows["species"]) == {"b"}
    assert (rows["x"] == 2.4).all()


def test_rare_classes_are_drawn_and_the_acceptance_is_that_of_all_classes():
    synth = sa.fit(flowers(), "table", classes="species", width=(0.5, 0.5, 0))
    shares = synth.condition(width=1.4).sample(5000, rng=0)["species"].value_counts(normalize=True)
    assert 0 < shares["c"] < 0.01  # class c is six of its deviations away from this width, which is usual in class b
    given = synth.condition(x=sa.Range(ge=0.5), y=sa.Range(ge=0.5)).generator
    assert given.shares.sum() == pytest.approx(1)
    assert np.ptp(given.shares) > 0.5
    expected = [share * part.kernels.acceptance for share, part in zip(given.shares, given.parts, strict=True)]
    assert given.acceptance == pytest.approx(sum(expected))


# Each function by itself


def tried(frame, label=None):
    """The names of the columns whose classes are tried, one after the other."""
    codec = sa.fit(frame, "table", label=label).codec
    K = len(frame)
    found = list_classes(codec, np.arange(K), codec.encode(codec.stored), np.ones(K))
    return [" + ".join(codec.columns[at].name for at in rows.positions) for rows in found]


def test_classes_that_are_tried_have_rows_enough():
    """Eight on average for one column, and in each combination of several, all of which some row has."""
    frame = crabs()
    assert tried(frame, "sort") == ["sort", "sort + sex"]
    blue = (frame["sort"] == "blue") & (frame["sex"] == "M")
    assert tried(frame[~blue | (frame.groupby(["sort", "sex"]).cumcount() < 8)], "sort") == ["sort", "sort + sex"]
    assert tried(frame[~blue | (frame.groupby(["sort", "sex"]).cumcount() < 7)], "sort") == ["sort"]
    few = pd.DataFrame({"x": np.arange(34) * 7 % 34 / 4, "kind": list("abcd") * 8 + ["a", "b"]})
    assert tried(few, "kind") == ["kind"]
    assert tried(few[:31], "kind") == []
    rare = pd.DataFrame({"x": np.arange(40) * 7 % 40 / 4, "kind": ["a"] * 20 + ["b"] * 17 + ["c"] * 3})
    assert tried(rare, "kind") == ["kind"]


def test_at_most_three_columns_are_combined():
    rng, n = np.random.default_rng(0), 40 * 16
    codes = np.arange(n)[:, None] // [1, 2, 4, 8] % 2
    frame = pd.DataFrame(np.array([["n", "y"]]).T[codes, 0], columns=list("abcd"))
    frame["x"] = (codes @ [1.0, 2.0, 4.0, 8.0] + rng.normal(size=n)).round(2)
    assert tried(frame) == ["d", "c + d", "b + c + d"]


def test_columns_that_explain_nothing_are_tried_only_if_they_are_the_label():
    coin = pd.DataFrame({"x": np.repeat(np.arange(60) * 7 % 60 / 8, 2), "coin": ["h", "t"] * 60})
    assert tried(coin, "coin") == ["coin"]
    assert tried(coin) == []


def test_what_classes_explain_is_their_share_of_the_variance_less_that_of_random_ones():
    frame = flowers()
    codec = sa.fit(frame, "table").codec
    features = codec.encode(frame)
    at = codec.position("species")
    others = np.delete(features, range(codec.blocks[at].start, codec.blocks[at].stop), axis=1)
    shares = []
    for values in others.T:
        within = sum(((own - own.mean()) ** 2).sum() for _, own in pd.Series(values).groupby(frame["species"]))
        shares.append(1 - within / ((values - values.mean()) ** 2).sum())
    rows = ClassRows.of(codec, np.arange(120), features, np.ones(120), at)
    assert rows.explained == pytest.approx(np.mean(shares) - 2 / 120)
    constant = features.copy()
    constant[:, codec.blocks[codec.position("x")]] = 1.5  # explains nothing
    rows = ClassRows.of(codec, np.arange(120), constant, np.ones(120), at)
    assert rows.explained == pytest.approx((shares[0] + shares[2]) / 3 - 2 / 120)


@pytest.mark.parametrize(
    ("gains", "best"),
    [
        ([-1, -2, 9], None),  # a third column is not tried where two do not matter
        ([5, 3, 9], 0),
        ([5, 7, 6], 1),
        ([5, 7, 9], 2),
        ([-1, 4, 9], 2),
        ([0, -1, 3], None),
        ([4], 0),
        ([], None),
    ],
)
def test_the_likeliest_of_the_classes_is_taken(gains, best, monkeypatch):
    choices = [SimpleNamespace(positions=(0,) * n, gain=gain, width=None) for n, gain in enumerate(gains, start=1)]
    monkeypatch.setattr(covariance_fit, "measure_gain", lambda rows, pooled, within: rows.gain)
    found = covariance_fit._choose_classes(choices, KernelParams(0.2, 0.5, 0), Progress(9, "", False))
    assert found is (None if best is None else choices[best])


def test_noise_is_searched_for_eight_rows_or_more(monkeypatch):
    asked = []
    monkeypatch.setattr(covariance_fit, "choose_noise", lambda codec, features, one, fit: asked.append(one) or one)
    frame = flowers()[["x", "y"]]
    for n in (6, 7, 8):
        assert isinstance(sa.fit(frame[:n], "table").generator, CovarianceGenerator)
        assert len(asked) == (n == 8)
    assert isinstance(sa.fit(frame, "table", width=(0.2, 0.5, 0)).generator, CovarianceGenerator)
    assert len(asked) == 1  # a given width is not changed


def test_notes_on_classes_of_several_columns_with_one_value():
    frame = flowers().assign(a="one", b="two")
    (note,) = sa.fit(frame, "table", classes="a + b").describe().notes
    reason = "have one value among the rows with positive weight"
    assert note == f"classes=a + b: {reason}, so that kernels are fitted around all rows"


@pytest.mark.parametrize("width", [(0.1, 0.5), 0.5, "wide"])
def test_a_width_has_three_numbers(width):
    with pytest.raises(InputError, match="width must be three numbers: noise, pooled, neighbors; got"):
        sa.fit(flowers(), "table", width=width)


def test_amounts_are_counted_among_the_features_outside_the_class():
    frame = flowers().assign(coin=np.random.default_rng(3).choice(["h", "t"], 120))[["species", "x", "coin", "y"]]
    codec = sa.fit(frame, "table").codec
    features = codec.features(codec.stored)
    rows = ClassRows.of(codec, np.arange(120), features, np.ones(120), [c.name for c in codec.columns].index("species"))
    width = sum(block.stop - block.start for block in codec.blocks) - rows.inside.sum()
    assert rows.amounts.tolist() == [0, width - 1]  # x, the two values of the coin, y


@pytest.mark.parametrize("classes", ["pooled", "g"])
def test_kernels_lie_around_a_part_of_many_rows_which_a_note_says(classes):
    rng, K = np.random.default_rng(0), 12_000
    x = rng.normal(size=K)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=K), "g": np.where(np.arange(K) % 1500, "often", "rare")})
    synth = sa.fit(frame, width=(0.5, 1.0, 0), classes=classes)
    (note,) = synth.describe().notes
    assert "around 10,00" in note  # the eight rare rows are all kept
    assert "of the 12,000 stored rows" in note
    new = synth.sample(12_000, rng=0)
    assert (new.g == "rare").mean() == pytest.approx(8 / 12_000, abs=1 / 1000)
    np.testing.assert_allclose(new.x.quantile([0.1, 0.5, 0.9]), frame.x.quantile([0.1, 0.5, 0.9]), atol=0.03)
    assert np.corrcoef(new.x, new.y)[0, 1] == pytest.approx(np.corrcoef(frame.x, frame.y)[0, 1], abs=0.02)
