"""Covariance kernels of tables: shares, weights, fixed cells, small and odd tables, density."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from stochattn import pipeline
from stochattn.data.legacy import InputError
from stochattn.data.tables import TableCodec
from stochattn.data.tables.native import share_offsets

N = 4000


def people(n=120, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "rare"], n, p=[0.6, 0.36, 0.04])
    shift = np.select([group == "a", group == "b"], [0.0, 5.0], -5.0)
    height = np.round(rng.normal(170, 2, n) + shift, 1)
    return pd.DataFrame({"height": height, "visits": rng.poisson(1, n), "group": group})


def native(frame, weights=None, fixes=(), **options):
    codec = TableCodec.fit(frame, **options)
    return codec.native(np.ones(codec.K) if weights is None else np.asarray(weights, dtype=float), fixes)


def drawn(frame, n=N, **given):
    return native(frame, **given).draw(n, np.random.default_rng(1))[0]


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
    sampler = native(frame, weights=frame["group"] != "a")
    new, memory = sampler.draw(500, np.random.default_rng(0))
    assert set(new["group"]) == {"b", "rare"}
    assert (frame["group"].to_numpy()[memory] != "a").all()


def test_offsets_give_shares_that_normals_would_not_have():
    features = np.random.default_rng(0).standard_normal((20_000, 3)) * 0.2 + [0.9, 0.08, 0.02]
    assert (features.argmax(1) == 2).mean() < 0.001
    moved = features + share_offsets(features, np.array([0.9, 0.08, 0.02]))
    np.testing.assert_allclose(np.bincount(moved.argmax(1)) / 20_000, [0.9, 0.08, 0.02], atol=0.003)
    assert share_offsets(features, np.array([0.5, 0.5, 0.0]))[2] == -np.inf


def test_fixed_cells_hold_and_the_rest_follows_them():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 400)
    frame = pd.DataFrame({"x": x, "y": 0.8 * x + 0.6 * rng.normal(0, 1, 400), "group": np.where(x > 0, "up", "down")})
    new = drawn(frame, fixes=("x=1.5",))
    np.testing.assert_allclose(new["x"], 1.5, rtol=1e-12)
    assert new["y"].mean() == pytest.approx(1.2, abs=0.2)
    assert new["y"].std() == pytest.approx(0.6, abs=0.15)
    assert (new["group"] == "up").mean() > 0.9
    new = drawn(frame, fixes=("group=down",))
    assert set(new["group"]) == {"down"}
    assert new["x"].mean() == pytest.approx(x[x < 0].mean(), abs=0.25)
    assert set(drawn(frame, n=50, weights=x < 0.0, fixes=("group=up",))["group"]) == {"up"}  # though none is kept


def test_fixed_columns_are_never_missing_and_gaps_come_back_elsewhere():
    frame = people()
    frame.loc[::4, "height"] = np.nan
    assert drawn(frame)["height"].isna().mean() == pytest.approx(0.25, abs=0.03)
    assert (drawn(frame, n=50, fixes=("height=171",))["height"] == 171).all()
    assert not drawn(frame, missing="impute")["height"].isna().any()


def test_what_lies_far_out_is_said():
    frame = people()
    sampler = native(frame, fixes=("height=300",))
    assert "300 lies beyond the stored values" in sampler.notes[0]
    assert "unlike anything stored" in sampler.notes[1]
    assert native(frame, fixes=(f"height={frame['height'].iloc[0]}",)).notes == ()
    with pytest.raises(InputError, match="no such value"):
        native(frame, fixes=("group=c",))


def test_density_is_that_of_one_gaussian_where_one_is_chosen():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(0, 1, (12, 2)), columns=["x", "y"])
    sampler = native(frame, weights=np.arange(12) < 5)  # too few for a choice: the stated width
    assert "fewer than 8 rows" in sampler.about
    features = sampler.codec.features(frame)
    kernels = sampler.kernels
    assert kernels.width == (0.5, 1.0, 0)
    cov = kernels.roots[0] @ kernels.roots[0].T
    centre = features[:5].mean(0)
    expected = np.mean([multivariate_normal(m + centre, cov).pdf(features) for m in kernels.means], axis=0)
    np.testing.assert_allclose(sampler.log_density(frame), np.log(expected), rtol=1e-8)
    odd = pd.DataFrame({"x": [0.0, 30.0], "y": [0.0, -30.0]})
    near, far = native(frame).log_density(odd)
    assert near > far + 10
    with pytest.raises(ValueError, match="conditioned"):
        native(frame, fixes=("x=0",)).log_density(frame)


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
    np.testing.assert_allclose(drawn(wide, n=5, fixes=("0=0.5",))["0"], 0.5, rtol=1e-9)


def test_kept_rows_that_are_all_alike_come_back_and_one_row_is_an_error():
    frame = pd.DataFrame({"x": [1.0, 1.0, 1.0, 2.0, 3.0], "y": [1.0, 1.0, 1.0, 5.0, 4.0]})
    new = drawn(frame, n=100, weights=[1, 1, 1, 0, 0])
    assert (new == 1.0).to_numpy().mean() > 0.9
    with pytest.raises(InputError, match="kept rows of the table: memories are all alike"):
        native(frame, weights=[0, 0, 0, 0, 1])


def test_the_pipeline_draws_from_it_block_by_block(monkeypatch):
    monkeypatch.setattr(pipeline, "BLOCK", 16)
    plan = pipeline.plan(TableCodec.fit(people()), target="native")
    few, more = (pd.concat([b.items for b in pipeline.batches(plan, n, 3)]) for n in (20, 40))
    assert few.reset_index(drop=True).equals(more.reset_index(drop=True)[:20])
    assert plan.notes[0].startswith("covariance kernels: ")
