"""A folder of generated data for the tests of the reproduction, which use no network."""

import pytest
import torch

from . import made


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return made.write_all(tmp_path_factory.mktemp("made"))


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """No STOCHATTN_DATA, a temporary cache, and one thread, because more are slower for such small networks."""
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.delenv("STOCHATTN_DATA", raising=False)
    monkeypatch.setenv("STOCHATTN_CACHE", str(tmp_path / "cache"))
