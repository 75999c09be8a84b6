"""Fixtures of all tests; the banks are in banks.py."""

import os
import signal
import sys

import pytest
import torch

from banks import BANKS, LIBRARIES, ingredients, make_bank, to_library
from made_items import write_all
from stochattn.kinds import comparison
from stochattn.report import figures

__all__ = ["BANKS", "LIBRARIES", "ingredients", "make_bank", "to_library"]

torch.set_num_threads(1)
# A shell that starts the tests in the background, as nohup does, ignores SIGINT, and so would they and their programs.
signal.signal(signal.SIGINT, signal.default_int_handler)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads this when it compiles the first kernel


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


N_TREES = comparison.N_TREES


@pytest.fixture(scope="session", autouse=True)
def small_forests():
    """Forests take most of the time of a report, and few tests are about what they find (see `large_forests`)."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparison, "N_TREES", 6)
        yield


@pytest.fixture(autouse=True)
def new_workers():
    """Worker processes end with the test that started them.

    joblib keeps them, and ends one whose memory has grown, for example by what later tests import. It once waited for
    such a worker without end.
    """
    yield
    executors = sys.modules.get("joblib.externals.loky.reusable_executor")
    if executors is not None and executors._executor is not None:
        executors._executor.shutdown(wait=True, kill_workers=True)
        executors._executor = None


@pytest.fixture(autouse=True)
def without_hooks():
    """Attention that a test registers by name does not watch the models of later tests: torch.compile would warn."""
    yield
    pretrained = sys.modules.get("stochattn.nn.pretrained")
    if pretrained is not None:
        while pretrained._HOOKS:
            pretrained._HOOKS.pop().remove()


@pytest.fixture
def large_forests(monkeypatch):
    """Forests as users have them."""
    monkeypatch.setattr(comparison, "N_TREES", N_TREES)


@pytest.fixture
def unrendered_figures(monkeypatch):
    """Figures are made but not drawn, which takes a third of the time of a report: for tests of its text."""
    monkeypatch.setattr(figures, "_save", lambda figure, **options: b"<svg/>")


SLOW = (
    *("benchmarks/", "cli/", "evaluation/", "examples/", "extension/", "kernels/", "nn/", "report/", "reproduction/"),
    *("core/test_model", "samplers/test_heads", "samplers/test_run.py", "storage/"),
    *("kinds/images/test_images", "kinds/images/test_local_heads", "kinds/proteins/test_latent"),
    *("kinds/returns/test_skfolio",),
    *("kinds/tables/test_table_generators", "kinds/test_all_kinds", "test_docs", "test_law", "test_published"),
)
"""Files of slow tests, which `make check` skips."""


SHARED = ("everything", "reports", "known", "example")
"""Fixtures that take seconds. Tests that use the same one run in the same process, which then computes it once."""


def shared_fixture(item):
    """The name of such a fixture and of the kind of data that it is for, or None."""
    names = set(SHARED).intersection(getattr(item, "fixturenames", ()))
    if not names:
        return None
    values = item.callspec.params if hasattr(item, "callspec") else {}
    kind = getattr(values.get("example"), "kind", values.get("kind", "") if "known" in names else "")
    return f"{min(names)} {kind}".strip()


def pytest_collection_modifyitems(items):
    for item in items:
        if any(f"tests/{name}" in item.nodeid for name in SLOW):
            item.add_marker(pytest.mark.slow)
        if group := shared_fixture(item):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish(session):
    """Two threads in each of two processes wait for each other on two cores: the suite then takes a minute longer."""
    assert torch.get_num_threads() == 1, "a test module changed torch's number of threads when it was imported"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """An input of each built-in kind of data."""
    return write_all(tmp_path_factory.mktemp("inputs"))
