"""The baselines of the paper: each is built from a bank (or samples) and has `sample(n, rng) -> (n, d)`."""

from .static import (
    Baseline,
    ConvexCombination,
    GaussianPerturbation,
    IsotropicGaussian,
    MatchedGaussian,
    MixtureOnPCA,
    Replay,
)

__all__ = [
    "Baseline",
    "ConvexCombination",
    "GaussianPerturbation",
    "IsotropicGaussian",
    "MatchedGaussian",
    "MixtureOnPCA",
    "Replay",
]
