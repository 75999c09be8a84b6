"""A model of the time of one Langevin step on a bank that is sharded over processes, fitted to measured runs.

A step of n chains costs every process its share of two products with the memories and of one pass over them, the noise
and the rest of the step for all chains, and two messages to every other process with n (d + 2) numbers in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

BYTES = 4  # of a number: float32


class Measured(NamedTuple):
    """A measured step: `seconds` for n chains on K memories of d numbers, over `workers` processes on `cores` cores."""

    workers: int
    K: int
    d: int
    n: int
    seconds: float
    cores: int


class Machine(NamedTuple):
    """The seconds that each term of a step takes, on one core and between two processes."""

    step: float  # of a step with nothing to do
    flop: float  # of the products, 4 n K d
    byte: float  # of the memories that are read, 4 K d; the cores of a machine share it
    number: float  # of the chains' own numbers, n d: noise, softmax, updates
    message: float  # between two processes
    sent: float  # of a byte that a process sends

    def seconds(self, workers: int, K: int, d: int, n: int, cores: int, machines: int = 1) -> float:
        """The time of one step, with the processes spread over so many cores in all, of so many machines."""
        return float(np.dot(terms(workers, K, d, n, cores, machines), self))


def terms(workers: int, K: int, d: int, n: int, cores: int, machines: int = 1) -> list[float]:
    """How often each term of `Machine` occurs, one after the other, in a step."""
    rounds = -(-workers // cores)  # processes that take turns on one core
    share = 1 / min(workers, cores)  # of the bank that one core works through
    messages = 2 * (workers - 1) * rounds
    sent = 2 * (workers - 1) / workers * n * (d + 2) * BYTES * rounds
    return [rounds, 4 * n * K * d * share, BYTES * K * d / machines, n * d * rounds, messages, sent]


def fitted(runs: Sequence[Measured]) -> Machine:
    """The machine whose times are closest to the measured ones, relative to each of them; no term is negative."""
    rows = np.array([terms(one.workers, one.K, one.d, one.n, one.cores) for one in runs])
    seconds = np.array([one.seconds for one in runs])
    scale = rows.max(0)  # the terms differ by twelve orders of magnitude
    scale[scale == 0] = 1.0
    found, _ = nnls(rows / scale / seconds[:, None], np.ones(len(runs)))
    return Machine(*map(float, found / scale))


def relative_error(machine: Machine, run: Measured) -> float:
    """(predicted − measured) / measured."""
    return machine.seconds(run.workers, run.K, run.d, run.n, run.cores) / run.seconds - 1
