"""Covariance kernels of tables: shares, weights, conditions, small and unusual tables, density, saving."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import stochattn as sa
from stochattn.kinds import InputError
from stochattn.kinds.tables.generator import class_fit, covariance
from stochattn.kinds.tables.generator.covariance import CovarianceGenerator, fit_offsets
from stochattn.synthesizer import drawing

N = 4000


def people(n=120, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "rare"], n, p=[0.6, 0.36, 0.04])
    shift = np.select([group == "a", group == "b"], [0.0, 5.0], -5.0)
    height = np.round(rng.normal(170, 2, n) + shift, 1)
    return pd.DataFrame({"height": height, "visits": rng.poisson(1, n), "group": group})


def synth_of(frame, weights=None, condition=None, **options):
    synth = sa.fit(frame, "table", **options)
    if weights is not None:
        fit = dataclasses.replace(synth.generator_fit, weights=np.asarray(weights, dtype=float))
        synth = dataclasses.replace(synth, generator_fit=fit)
    return synth.condition(condition or {})


def drawn(frame, n=N, **given):
    synth = synth_of(frame, **given)
    made = synth.generator.sample(n, np.random.default_rng(1))
    return synth.decoder.decode(made.values, made.source)


def shares(frame, column="group"):
    return frame[column].value_counts(normalize=True)


def test_categories_and_shared_numbers_keep_their_shares():
    # 4,000 draws have a standard error of 0.008 at most, the 4,096 of the calibration as much again.
    frame = people()
    new = drawn(frame)
    assert shares(frame).sub(shares(new), fill_value=0).abs().max() < 0.03
    assert abs(shares(new)["rare"] - shares(frame)["rare"]) < 0.015
    assert shares(frame, "visits").sub(shares(new, "visits"), fill_value=0).abs().max() < 0.05
    assert new["height"].std() == pytest.approx(frame["height"].std(), rel=0.1)
    kept = np.corrcoef(new["height"], new["group"] == "b")[0, 1]
    assert kept == pytest.approx(np.corrcoef(frame["height"], frame["group"] == "b")[0, 1], abs=0.1)


def test_classes_follow_weights_and_masks():
    frame = people()
    weights = np.where(frame["group"] == "b", 3.0, 1.0)
    share = weights[frame["group"] == "b"].sum() / weights.sum()
    new = drawn(frame, weights=weights)
    assert shares(new)["b"] == pytest.approx(share, abs=0.03)
    assert new["height"].mean() == pytest.approx(np.average(frame["height"], weights=weights), abs=0.4)
    synth = synth_of(frame, weights=frame["group"] != "a")
    made = synth.generator.sample(500, np.random.default_rng(0))
    assert set(synth.decoder.decode(made.values, made.source)["group"]) == {"b", "rare"}
    assert (frame["group"].to_numpy()[made.source] != "a").all()


def test_offsets_correct_the_shares_of_categories():
    features = np.random.default_rng(0).standard_normal((20_000, 3)) * 0.2 + [0.9, 0.08, 0.02]
    assert (features.argmax(1) == 2).mean() < 0.001
    moved = features + fit_offsets(features, np.array([0.9, 0.08, 0.02]))
    np.testing.assert_allclose(np.bincount(moved.argmax(1)) / 20_000, [0.9, 0.08, 0.02], atol=0.003)
    assert fit_offsets(features, np.array([0.5, 0.5, 0.0]))[2] == -np.inf


def test_conditioned_cells_are_exact_and_others_follow_them():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 400)
    frame = pd.DataFrame({"x": x, "y": 0.8 * x + 0.6 * rng.normal(0, 1, 400), "group": np.where(x > 0, "up", "down")})
    new = drawn(frame, condition={"x": 1.5})
    np.testing.assert_allclose(new["x"], 1.5, rtol=1e-12)
    assert new["y"].mean() == pytest.approx(1.2, abs=0.2)
    assert new["y"].std() == pytest.approx(0.6, abs=0.15)
    assert (new["group"] == "up").mean() > 0.9
    new = drawn(frame, condition={"group": "down"})
    assert set(new["group"]) == {"down"}
    assert new["x"].mean() == pytest.approx(x[x < 0].mean(), abs=0.25)
    assert set(drawn(frame, n=50, weights=x < 0.0, condition={"group": "up"})["group"]) == {"up"}  # zero weight


def test_conditioned_columns_are_never_missing_and_others_are_as_often_as_stored():
    frame = people()
    frame.loc[::4, "height"] = np.nan
    assert drawn(frame)["height"].isna().mean() == pytest.approx(0.25, abs=0.03)
    assert (drawn(frame, n=50, condition={"height": 171})["height"] == 171).all()
    assert not drawn(frame, missing="impute")["height"].isna().any()


def test_notes_name_values_outside_the_data():
    frame = people()
    plain, notes = synth_of(frame).notes, synth_of(frame, condition={"height": 195}).notes
    assert "height=195 lies beyond the stored values" in notes[len(plain)]
    assert "unlike anything stored" in notes[len(plain) + 1]
    assert synth_of(frame, condition={"height": frame["height"].iloc[0]}).notes == plain
    with pytest.raises(InputError, match="no such value"):
        synth_of(frame, condition={"group": "c"})


def test_a_note_warns_if_few_rows_match_a_condition():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 20), "y": np.linspace(2, 3, 20) ** 2})
    notes = synth_of(frame, condition={"x": frame["x"][3], "y": frame["y"][3]}, width=(0.001, 1.0, 0)).describe().notes
    assert "about 1 stored row explains the condition: draws stay close to it" in notes


def test_density_is_that_of_one_gaussian_where_one_is_chosen():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(0, 1, (12, 2)), columns=["x", "y"])
    synth = synth_of(frame, weights=np.arange(12) < 5)  # too few rows to choose: the default width
    assert "fewer than 8 rows" in synth.describe().summary
    features = synth.codec.encode(frame)
    kernels = synth.generator.kernels
    assert kernels.width == (0.5, 1.0, 0)
    cov = kernels.roots[0] @ kernels.roots[0].T
    center = features[:5].mean(0)
    expected = np.mean([multivariate_normal(m + center, cov).pdf(features) for m in kernels.means], axis=0)
    np.testing.assert_allclose(synth.log_density(frame), np.log(expected), rtol=1e-8)
    odd = pd.DataFrame({"x": [0.0, 30.0], "y": [0.0, -30.0]})
    near, far = synth_of(frame).log_density(odd)
    assert near > far + 10
    with pytest.raises(ValueError, match="before condition"):
        synth_of(frame, condition={"x": 0}).log_density(frame)


@pytest.mark.parametrize("K", [2, 3, 4, 9])
def test_a_few_rows_are_enough(K):
    new = drawn(people()[:K].assign(height=np.arange(K) + 0.5), n=200)
    assert new["height"].std() > 0.1
    assert np.isfinite(new["height"]).all()


def test_all_categories_with_many_equal_rows():
    rng = np.random.default_rng(0)
    one = rng.choice(["x", "y"], 80)
    other = np.where(rng.random(80) < 0.9, one, rng.choice(["x", "y", "z"], 80))
    frame = pd.DataFrame({"one": one, "other": other})
    new = drawn(frame)
    assert (new["one"] == new["other"]).mean() == pytest.approx((one == other).mean(), abs=0.08)
    assert set(new["other"]) <= {"x", "y", "z"}


def test_constant_columns_singular_tables_and_wide_ones():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(0, 1, 30), "same": 7})
    frame["twice"] = 2 * frame["x"]
    new = drawn(frame)
    assert (new["same"] == 7).all()
    assert np.corrcoef(new["x"], new["twice"])[0, 1] > 0.98
    wide = pd.DataFrame(rng.normal(0, 1, (20, 300))).rename(columns=str)
    new = drawn(wide, n=400)
    assert new.to_numpy().std() == pytest.approx(wide.to_numpy().std(), rel=0.1)
    np.testing.assert_allclose(drawn(wide, n=5, condition={"0": 0.5})["0"], 0.5, rtol=1e-9)


def test_identical_rows_are_returned_and_one_row_is_an_error():
    frame = pd.DataFrame({"x": [1.0, 1.0, 1.0, 2.0, 3.0], "y": [1.0, 1.0, 1.0, 5.0, 4.0]})
    new = drawn(frame, n=100, weights=[1, 1, 1, 0, 0])
    assert (new == 1.0).to_numpy().mean() > 0.9
    with pytest.raises(InputError, match="one row is left by the selection"):
        _ = synth_of(frame, weights=[0, 0, 0, 0, 1]).generator


def test_fewer_draws_are_the_first_of_more_across_blocks(monkeypatch):
    monkeypatch.setattr(drawing, "BLOCK", 16)
    synth = synth_of(people())
    few, more = (synth.sample(n, rng=3) for n in (20, 40))
    assert few.equals(more[:20])


@pytest.mark.parametrize(
    ("width", "summary"),
    [
        ((0.5, 0.0, 9), "50% of the variance among its 9 nearest rows, with their own covariance"),
        (
            (1.0, 1.0, 9),
            "100% of the variance among its 9 nearest rows, with the average covariance of all rows",
        ),
        ((0.2, 0.3, 9), "with a covariance that is 70% their own and 30% the average of all rows"),
        ((0.2, 1.0, 0), "20% of the variance among all rows"),
        (None, "(chosen by the likelihood of left-out rows)"),
    ],
)
def test_the_summary_says_what_noise_there_is_around_rows(width, summary):
    said = synth_of(people(), width=width).describe().summary
    assert said.startswith("Gaussian noise around each stored row: ")
    assert said.removesuffix(" (as given)").endswith(summary)
    assert said.endswith("(as given)") is (width is not None)


def test_a_saved_synthesizer_does_not_search_its_width_again(tmp_path, monkeypatch):
    synth = synth_of(people()).condition(height=171)
    synth.save(tmp_path / "people.synth")
    expected, subset = synth.sample(30, rng=0), synth.subset(np.arange(60)).sample(30, rng=0)
    loaded = sa.load(tmp_path / "people.synth")
    with monkeypatch.context() as without_search:
        without_search.setattr(covariance, "choose_width", None)
        without_search.setattr(class_fit, "choose_class_width", None)
        pd.testing.assert_frame_equal(loaded.sample(30, rng=0), expected)
    # Other rows have another width: a selection searches, as it did before saving.
    pd.testing.assert_frame_equal(loaded.subset(np.arange(60)).sample(30, rng=0), subset)


def test_a_width_may_be_given():
    synth = synth_of(people(), width=(0.3, 1.0, 0))
    assert synth.generator.kernels.width == (0.3, 1.0, 0)
    assert synth.describe().resolved == {"width": (0.3, 1.0, 0), "classes": "pooled"}
    for width, why in (((0.3, 1.0), "three numbers"), ((2.0, 1.0, 0), "noise above 0 and up to 1")):
        with pytest.raises(ValueError, match=why):
            synth_of(people(), width=width)


def test_the_generator_needs_only_features_and_their_layout():
    """Two clusters beside a one-hot block that names them; the generator sees no table."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, 60)
    features = np.column_stack([rng.normal(6.0 * cluster, 1.0), np.eye(2)[cluster]])

    def jitter(rows, rng, amount):
        moved = rows.copy()
        moved[:, 1:] += amount * rng.standard_normal((len(rows), 2))
        return moved

    made = CovarianceGenerator.fit(features, np.ones(60), np.arange(60), (slice(1, 3),), jitter)
    new = made.sample(N, rng).values
    named = new[:, 1:].argmax(1)
    assert abs(named.mean() - cluster.mean()) < 0.03
    assert ((new[:, 0] > 3) == named).mean() > 0.95
    given = made.condition((np.array([1, 2]), np.array([0.0, 1.0]))).sample(500, rng).values
    np.testing.assert_allclose(given[:, 1:], [[0.0, 1.0]] * 500, atol=1e-9)
    assert (given[:, 0] > 3).mean() > 0.95
