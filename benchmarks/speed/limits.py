"""Limits of the machine: rates of matrix products, normal numbers and memory traffic."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from .measured import Limit, Results, Task
from .timing import seconds

PRODUCTS, NORMALS, READ, COPY = "products", "normals", "reading memory", "copying memory"


def tasks(quick: bool, device: str) -> list[Task]:
    """One task; the growth curves use its results."""
    work: Callable[..., Any] = on_cuda if device == "cuda" else on_cpu
    return [Task("limits", "products, normals, memory", partial(work, 1 if quick else 5))]


def on_cpu(rounds: int, results: Results | None = None, size: int = 2048) -> Sequence[Limit]:
    """The best rate over several rounds on all cores."""
    rng = np.random.default_rng(0)
    square = rng.standard_normal((size, size))
    single, cores = square.astype(np.float32), os.cpu_count() or 1
    flops = 2 * size**3
    long = np.ones(16 * size**2, dtype=np.float32)
    target = np.empty_like(long)
    pieces = [slice(i * len(long) // cores, (i + 1) * len(long) // cores) for i in range(cores)]
    generators = [np.random.Generator(np.random.SFC64(i)) for i in range(cores)]
    buffers = [np.empty(size**2 // 2, dtype=np.float32) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:

        def on_all_cores(work: Callable[[int], object]) -> Callable[[], object]:
            return lambda: list(pool.map(work, range(cores)))

        fill = on_all_cores(lambda i: generators[i].standard_normal(out=buffers[i], dtype=np.float32))
        read = on_all_cores(lambda i: long[pieces[i]].max())
        copy = on_all_cores(lambda i: np.copyto(target[pieces[i]], long[pieces[i]]))
        return [
            Limit(PRODUCTS, flops / _best(lambda: single @ single, rounds), "float32 flop"),
            Limit("products, float64", flops / _best(lambda: square @ square, rounds), "float64 flop"),
            Limit(NORMALS, cores * len(buffers[0]) / _best(fill, rounds), "float32 normals"),
            Limit(READ, long.nbytes / _best(read, rounds), "bytes"),
            Limit(COPY, 2 * long.nbytes / _best(copy, rounds), "bytes read and written"),
        ]


def on_cuda(rounds: int, results: Results | None = None, size: int = 8192) -> Sequence[Limit]:
    """The same on the device: products in float32 and float16, normals of torch, memory traffic."""
    import torch

    single = torch.randn((size, size), device="cuda")
    half, target = single.half(), torch.empty_like(single)
    flops = 2 * size**3
    return [
        Limit(PRODUCTS, flops / _best(lambda: single @ single, rounds), "float32 flop"),
        Limit("products, float16", flops / _best(lambda: half @ half, rounds), "float16 flop"),
        Limit(NORMALS, size**2 / _best(lambda: target.normal_(), rounds), "float32 normals"),
        Limit(READ, 4 * size**2 / _best(lambda: single.amax(), rounds), "bytes"),
        Limit(COPY, 8 * size**2 / _best(lambda: target.copy_(single), rounds), "bytes read and written"),
    ]


def _best(work: Callable[[], object], rounds: int) -> float:
    work()
    return min(seconds(work) for _ in range(rounds + 2))
