"""Description of the machine: processor, cores, memory, device, versions, date."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import stochattn
from stochattn._backend.parallel import MAX_THREADS_VARIABLE, usable_cores

PACKAGES = ("stochattn", "numpy", "torch", "jax", "blackjax", "scikit-learn")
MAX_LOAD = 0.7
"""Above this load, other processes disturb the measurements."""


def about(device: str, quick: bool) -> dict[str, Any]:
    """Date, machine and versions of a run."""
    found: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": device,
        "quick": quick,
        "machine": _gpu() if device == "cuda" else f"{_processor()}, {os.cpu_count()} cores",
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_at_start": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "blas": _blas(),
    }
    return found | {name: _version(name) for name in PACKAGES} | {"stochattn": stochattn.__version__}


def core_limit() -> str | None:
    """A message if a variable gives the libraries that obey it fewer cores than those that do not, or None."""
    value, affinity = os.environ.get(MAX_THREADS_VARIABLE), getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    if usable_cores() >= cores:
        return None
    return f"{MAX_THREADS_VARIABLE}={value} limits stochattn and NumPy, but not JAX, which has {cores} cores. Unset it."


@contextmanager
def other_work_share() -> Iterator[list[float]]:
    """Measure the share of all cores that other processes use; the list gets it at the end (0 except on Linux)."""
    share: list[float] = []
    begin = _total_and_own_seconds()
    try:
        yield share
    finally:
        total, own, elapsed = (after - before for after, before in zip(_total_and_own_seconds(), begin, strict=True))
        share.append(round(max(0.0, total - own) / max(elapsed * (os.cpu_count() or 1), 1e-9), 3))


def _total_and_own_seconds() -> tuple[float, float, float]:
    """CPU seconds of all processes, CPU seconds of this process and its finished children, and wall time."""
    times = os.times()
    try:
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    except OSError:
        user = nice = system = 0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), sum(times[:4]), times.elapsed


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]  # type: ignore[index]
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def _gpu() -> str:
    import torch

    return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"


def _blas() -> str:
    from threadpoolctl import threadpool_info

    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return ", ".join(
        sorted({f"{one['internal_api']} {one['version']} ({one['num_threads']} threads)" for one in found})
    )
