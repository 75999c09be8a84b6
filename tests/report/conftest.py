"""Reports that several tests use."""

import pytest

from . import made
from .made import build_report


@pytest.fixture(scope="session")
def reports():
    """A report on 40 draws of p_beta for every kind, by kind."""
    synths = {kind: made.synth(kind, generator="hopfield") for kind in made.KINDS}
    return {
        kind: build_report(synth, synth.sample_items(40, 1), source=made.SOURCE, seed=1)
        for kind, synth in synths.items()
    }
