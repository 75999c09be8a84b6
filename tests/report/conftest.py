"""Reports that several tests look at."""

import pytest

from stochattn import pipeline, report

from . import made


@pytest.fixture(scope="session")
def reports():
    """A report on 40 new items for every kind, by kind."""
    plans = {kind: pipeline.plan(made.codec(kind)) for kind in made.KINDS}
    return {kind: report.build(plan, made.drawn(plan, 40), source=made.SOURCE, seed=1) for kind, plan in plans.items()}
