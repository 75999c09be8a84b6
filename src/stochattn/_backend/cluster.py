"""Dask clusters: connecting to one, and whether its workers have this version of the library."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakSet

from .._version import __version__
from .checks import InputError, first_line

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
_checked: WeakSet[Client] = WeakSet()  # clients whose workers have this version


def dask_module(name: str) -> ModuleType:
    """A module of dask or distributed, imported now; InputError with the remedy if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        remedy = "pip install 'stochattn[dask]'"
        raise InputError(f"work on many machines needs Dask, which is not installed: {remedy}.") from None


def active_client() -> Client | None:
    """The client of the cluster that `dask.compute` would use now; None for threads or processes of this machine."""
    if "distributed" not in sys.modules:
        return None
    client: Client | None = getattr(dask_module("dask.base").get_scheduler(), "__self__", None)
    if client is not None and client not in _checked:
        require_same_version(client)
        _checked.add(client)
    return client


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """A client of the scheduler at this address, with at least one worker, all of which have this version."""
    distributed = dask_module("distributed")
    if not isinstance(scheduler, str) or not ADDRESS.fullmatch(scheduler):
        raise InputError(f"scheduler must be an address such as tcp://host:8786; got {scheduler!r}.")
    remedy = "Start one with `dask scheduler` and workers with `dask worker ADDRESS`, or correct the address."
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"scheduler {scheduler!r} cannot be reached ({first_line(error)}). {remedy}") from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise InputError(f"scheduler {scheduler!r} has no workers. Start some: dask worker {scheduler}.")
        require_same_version(client)
        yield client


def require_same_version(client: Client) -> None:
    """InputError if a worker has no stochattn, or another version than this process."""
    versions = client.run(resolve_name, "stochattn:__version__", on_error="return")
    for worker, version in versions.items():
        if version != __version__:
            found = "cannot import stochattn" if isinstance(version, Exception) else f"has stochattn {version}"
            remedy = f"Install it there: pip install 'stochattn[dask]=={__version__}'."
            raise InputError(f"worker {worker} {found}, and this process has {__version__}. {remedy}")
