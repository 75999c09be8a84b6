"""Registers the example kind of data for these tests only."""

import pytest
import sensors
from plugins import EXAMPLES

import stochattn as sa
from stochattn.kinds import registry


@pytest.fixture(scope="package", autouse=True)
def _registered():
    sa.register_kind(sensors.KIND)
    yield
    registry._REGISTERED.pop(sensors.KIND.name)


@pytest.fixture(scope="package", params=EXAMPLES, ids=lambda example: example.kind)
def example(request):
    return request.param


@pytest.fixture(scope="package")
def source(example, tmp_path_factory):
    """A file or folder of that kind."""
    return example.write(tmp_path_factory.mktemp(example.kind))


@pytest.fixture(scope="package")
def synth(source):
    """The default synthesizer of that kind."""
    return sa.fit(source)


@pytest.fixture(scope="package")
def hopfield(synth):
    """p_beta over the same stored items, at a beta so large that items stay near their stored items."""
    return synth.with_generator("hopfield", beta=50.0)
