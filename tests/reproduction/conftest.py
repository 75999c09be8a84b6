"""A folder of made data, shared by the tests of the reproduction; no test reaches a network."""

import pytest
import torch

from . import made


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return made.write_all(tmp_path_factory.mktemp("made"))


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """No STOCHATTN_DATA, a cache of one's own, and one thread: on networks this small, more of them only wait."""
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.delenv("STOCHATTN_DATA", raising=False)
    monkeypatch.setenv("STOCHATTN_CACHE", str(tmp_path / "cache"))
