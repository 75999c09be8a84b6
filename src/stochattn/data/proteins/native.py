"""The samplers made for protein families, as the pipeline draws from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._backend.arrays import Array
from .latent import CalibratedLatent
from .substitution import SubstitutionMixture


class ProteinSampler(NamedTuple):
    """A fitted sampler of sequences, and a line about it."""

    sampler: Any
    about: str
    notes: tuple[str, ...] = ()

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """n new sequences (n, L), and the stored one each was drawn around (n,)."""
        codes, memory = self.sampler.sample(n, rng)
        return codes, memory


def native_sampler(codes: Array, weights: Array, fixed: Mapping[int, int]) -> ProteinSampler:
    """The calibrated latent sampler of a family; with residues fixed, the exact mixture in sequence space."""
    if fixed:
        mixture = SubstitutionMixture.fit(codes, weights).given(fixed)
        return ProteinSampler(mixture, "each stored sequence under substitutions, given the fixed residues (exact)")
    latent = CalibratedLatent.fit(codes, weights)
    return ProteinSampler(
        latent,
        f"calibrated latent; identity to the nearest stored {latent.calibration.identity:.3f}, "
        f"that of stored sequences to each other {latent.target:.3f}",
    )
