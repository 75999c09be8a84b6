"""Explorers of every kind of data."""

import pytest

from .explored import CONDITIONS, KINDS, explorer_of, made_items


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    return made_items.write_all(tmp_path_factory.mktemp("explored"))


@pytest.fixture(scope="session")
def explorers(inputs):
    """An explorer of each kind, with p_beta, which is fitted in no time."""
    return {kind: explorer_of(path, generator="hopfield") for kind, path in inputs.items()}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def explorer(explorers, kind):
    return explorers[kind]


@pytest.fixture
def condition(explorer, kind):
    """A condition that new items can meet."""
    codec = explorer.base.codec
    letter = codec.to_user(codec.stored[:1])[0][1] if kind == "protein" else ""
    return CONDITIONS[kind].format(letter=letter)
