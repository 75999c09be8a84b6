"""The estimator inside other libraries: skfolio's SyntheticData, and a scikit-learn Pipeline."""

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stochattn.sklearn import StochasticAttentionDensity


def returns(days=250, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_normal((days, 1)) + 0.01 * rng.standard_normal((days, 4)) + 5e-4


def test_skfolio_draws_synthetic_returns_from_it():
    prior = pytest.importorskip("skfolio.prior", reason="skfolio is an optional dependency")
    import pandas as pd

    X = pd.DataFrame(returns(), columns=["A", "B", "C", "D"])
    model = prior.SyntheticData(
        distribution_estimator=StochasticAttentionDensity(beta=1e6, random_state=0), n_samples=2000
    ).fit(X)
    made = model.return_distribution_.returns
    assert made.shape == (2000, 4)
    # A kernel density: the covariance of the rows, plus 1/beta in each direction.
    expected = np.cov(X.to_numpy().T, bias=True) + np.eye(4) / 1e6
    np.testing.assert_allclose(model.return_distribution_.covariance, expected, rtol=0.25, atol=1e-5)
    assert list(model.feature_names_in_) == ["A", "B", "C", "D"]


def test_skfolio_optimises_a_portfolio_on_it():
    skfolio = pytest.importorskip("skfolio", reason="skfolio is an optional dependency")
    from skfolio.optimization import MeanRisk
    from skfolio.prior import SyntheticData

    prior = SyntheticData(distribution_estimator=StochasticAttentionDensity(random_state=0), n_samples=500)
    model = MeanRisk(risk_measure=skfolio.RiskMeasure.CVAR, prior_estimator=prior).fit(returns())
    assert model.weights_.sum() == pytest.approx(1, abs=1e-6)


def test_a_pipeline_fits_scores_and_samples():
    X, Y = returns(), returns(seed=1)
    pipeline = make_pipeline(StandardScaler(), StochasticAttentionDensity(random_state=0)).fit(X)
    scaled = StandardScaler().fit(X)
    alone = StochasticAttentionDensity(random_state=0).fit(scaled.transform(X))
    assert pipeline.score(Y) == pytest.approx(alone.score(scaled.transform(Y)))
    np.testing.assert_allclose(pipeline.score_samples(Y), alone.score_samples(scaled.transform(Y)))
    made = pipeline[:-1].inverse_transform(pipeline[-1].sample(3000))
    assert made.shape == (3000, 4)
    # Half of the variance of the draws is that of the kernel: the law is wider than the data and centred on it.
    assert (np.abs(made.mean(0) - X.mean(0)) < 5 * made.std(0) / np.sqrt(3000)).all()
    assert all(ks_2samp(a, b).statistic < 0.15 for a, b in zip(made.T, X.T, strict=True))
