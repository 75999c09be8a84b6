"""Kernels within classes: shares, gaps, conditions, density, choice by likelihood, and stratified draws."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid

import stochattn as sa
from stochattn.data import InputError
from stochattn.data.tables import covariance_fit
from stochattn.data.tables.class_fit import ClassRows, informative_column
from stochattn.generators.classes import ClassKernels
from stochattn.generators.covariance import CovarianceGenerator
from stochattn.generators.monotone import MonotoneMap, affine
from stochattn.generators.stratified import stratified


def flowers(n=40, seed=0):
    """Three classes of different shape, the first far from the others in `width`."""
    rng = np.random.default_rng(seed)
    parts = []
    for name, centre, slope in (("a", 0.3, 0.5), ("b", 1.4, -0.5), ("c", 2.0, 0.0)):
        x = rng.normal(size=n)
        width = centre + 0.1 * rng.normal(size=n)
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
    monkeypatch.setattr(covariance_fit, "classes_are_likelier", lambda rows, pooled, within: False)
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
    with pytest.raises(ValueError, match="conditioned law has no density"):
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


def test_pooled_kernels_can_be_asked_for():
    assert isinstance(sa.fit(flowers(), "table", classes="pooled").generator, CovarianceGenerator)


def test_stratified_choices_use_each_kernel_once_in_a_round_and_keep_weights():
    equal = stratified(np.full(50, -np.log(50)), 125, np.random.default_rng(0))
    assert sorted(equal[:50]) == sorted(equal[50:100]) == list(range(50))
    assert len(set(equal[100:])) == 25
    assert (stratified(np.full(50, -np.log(50)), 60, np.random.default_rng(0)) == equal[:60]).all()
    w = np.array([0.7, 0.2, 0.1])
    shares = np.bincount(stratified(np.log(w), 30_000, np.random.default_rng(1)), minlength=3) / 30_000
    np.testing.assert_allclose(shares, w, atol=0.01)


def test_monotone_maps_are_inverted_and_have_the_slopes_of_differences():
    knots = (np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.0, 5.0]))
    both = MonotoneMap((knots, None))
    x = np.column_stack([np.linspace(-2, 5, 15) + 0.01, np.arange(15.0)])
    np.testing.assert_allclose(both.outward(both.inward(x)), x, atol=1e-12)
    moved = x + np.array([1e-6, 0.0])
    slope = (both.inward(moved) - both.inward(x))[:, 0] / 1e-6
    np.testing.assert_allclose(both.log_slope(x), np.log(slope), atol=1e-4)
    np.testing.assert_allclose(affine(np.array([2.0]), np.array([4.0]), [0]).inward(np.array([[6.0]])), [[1.0]])


def test_a_class_that_is_never_drawn_has_no_density(synth):
    names = sorted(set(synth.codec.stored["species"]))
    rows = synth.codec.stored.groupby("species").head(1)
    density = synth.subset(synth.codec.stored["species"] != names[0]).log_density(rows)
    np.testing.assert_array_equal(np.isneginf(density), rows["species"] == names[0])


def encoded(frame):
    codec = sa.fit(frame, "table").codec
    return codec, codec.encode(codec.stored)


def test_the_column_that_explains_most_of_the_others_is_found():
    frame = flowers()
    frame["coin"] = np.where(frame.index % 2 == 0, "h", "t")
    for names in (["coin", "species", "x", "width"], ["species", "coin", "x", "width"]):
        codec, features = encoded(frame[names])
        assert informative_column(codec, features) == names.index("species")


def test_a_column_that_explains_nothing_is_not_taken():
    """Each value of the other column occurs once with each side of the coin."""
    codec, features = encoded(pd.DataFrame({"coin": ["h", "t"] * 40, "x": np.repeat(np.arange(40.0), 2)}))
    assert informative_column(codec, features) is None


def test_scores_of_a_small_class_are_shifted_and_scaled_by_what_varies_within_classes():
    frame = pd.concat([flowers(), flowers(2, seed=1).assign(species="d")[:5]], ignore_index=True)
    codec, features = encoded(frame[["x", "y", "species"]])
    classes = frame["species"].to_numpy()
    rows = ClassRows.of(codec, np.arange(len(frame)), features, np.ones(len(frame)), 2)
    within = features[:, :2] - np.array([features[classes == one, :2].mean(0) for one in classes])
    mean = features[classes == "d", :2].mean(0)
    moved = rows.maps(np.arange(len(frame)))[3].inward(mean + np.array([[0.0], [1.0], [-2.0]]) * within.std(0))
    np.testing.assert_allclose(moved, [[0, 0], [1, 1], [-2, -2]], atol=1e-9)


def test_a_column_of_too_many_classes_is_not_taken():
    """Classes of two rows explain most of the others, and are too small to be fitted."""
    frame = flowers()
    frame["pair"] = [f"pair {i // 2}" for i in frame["x"].rank(method="first").astype(int)]
    codec, features = encoded(frame[["pair", "species", "x", "width"]])
    assert informative_column(codec, features) in (None, 1)
    codec, features = encoded(frame[["pair", "x"]])
    assert informative_column(codec, features) is None


def test_of_distances_that_equal_the_limit_as_many_are_near_as_make_the_share():
    """Real distances 1, 1, 2 and 2: one in twenty is near, which is a tenth of those at 1."""
    real, distances = np.array([1.0, 1, 2, 2]), np.array([0.5, 1, 1, 3])
    assert covariance_fit._near(distances, real) == pytest.approx(0.25 + 0.5 * covariance_fit.NEAR / 0.5)
    assert covariance_fit._near(real, real) == pytest.approx(covariance_fit.NEAR)
