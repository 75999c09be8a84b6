"""What an experiment costs on one core of a CPU: its networks are trained for a part of their epochs.

Most of the time of a full run is training, which a GPU does much faster. Here each network trains for a few epochs, and
their processor time is multiplied; everything else runs in full.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stochattn._backend.files import write_atomically

from .baselines import training
from .catalogue import EXPERIMENTS
from .data import Data
from .fingerprint import code_digest

MIN_EPOCHS, MIN_STEPS = 4, 20  # of the training of each network


@dataclass(frozen=True)
class Cost:
    """Processor seconds of one seed: of training, of everything else, and of the part of the training that was run.

    code: the checksum of the experiment's code
    """

    code: str
    training: float
    other: float
    measured: float


@dataclass
class _Trained:
    """The processor seconds of the trainings so far: extrapolated, and spent."""

    whole: float = 0.0
    timed: float = 0.0
    spent: float = 0.0


def measure(name: str, data: Data, seed: int) -> Cost:
    """Run an experiment with short trainings on the CPU; its results are meaningless and not kept."""
    begin = time.process_time()
    with _short_trainings() as trained:
        EXPERIMENTS[name].module.run(data, seed, False)
    other = time.process_time() - begin - trained.spent
    return Cost(code_digest(name), round(trained.whole, 1), round(other, 1), round(trained.timed, 1))


def write(costs: dict[str, Cost], path: Path) -> None:
    """Add costs to those in a file, for the report."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    content = {**before, **{name: asdict(cost) for name, cost in costs.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1) + "\n")


@contextmanager
def _short_trainings() -> Iterator[_Trained]:
    """Trainings on the CPU of a part of the epochs; the cache of trained networks is neither read nor written."""
    sound, trained = training._train, _Trained()

    def short(network: Any, loss: Callable[..., Any], rows: Any, epochs: int, label: str, batch: int | None) -> float:
        steps = math.ceil(len(rows) / (batch or len(rows)))  # in an epoch
        some, begin = min(max(math.ceil(MIN_STEPS / steps), MIN_EPOCHS), epochs), time.process_time()
        sound(network, loss, rows, 1, label, batch)  # the first steps allocate memory
        warm = time.process_time()
        last = sound(network, loss, rows, some, label, batch)
        end = time.process_time()
        trained.whole += (end - warm) * epochs / some
        trained.timed += end - warm
        trained.spent += end - begin
        return last

    torch = training.torch_or_remedy()
    with (
        patch.object(torch.cuda, "is_available", lambda: False),
        patch.object(training, "_train", short),
        patch.object(training, "_load", lambda network, path: None),
        patch.object(training, "_save", lambda network, path, loss: None),
    ):
        yield trained
