"""Known faults, planted one at a time in experiments without training, and the cells that notice them.

A cell notices a fault if its margin to the published value, or to the exact law, is above 3σ with the fault and not
without it. The values without a fault come from finished results.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import stochattn as sa
from stochattn._backend.files import write_atomically
from stochattn.samplers.langevin import ULA

from . import family as families
from . import protocol
from .baselines import training
from .baselines.ddpm import DDPM
from .baselines.vae import VAE
from .catalogue import EXPERIMENTS
from .data import Data
from .expected import expected
from .experiments import faces, protein_study, protein_tables
from .results import LIMIT, Cell, Measured, Table

MIN_NOTICED = 2
LOUDER = 1.02
N_PROTEIN_RUNS = 3  # instead of ten

Tables = list[Table]
Patches = Callable[[], Any]


@dataclass(frozen=True)
class Fault:
    """A fault, how it is planted, and the runs that it touches: table name -> table."""

    name: str
    planted: Patches
    touched: Callable[[Data, int], Tables]


@dataclass(frozen=True)
class Noticed:
    """The cells that notice a fault, of all cells that were compared."""

    name: str
    cells: int
    noticed: list[str]


def run(data: Data, seed: int, finished: Mapping[str, Any]) -> list[Noticed]:
    """Plant each fault and compare every cell with the published value and with the exact law."""
    sound = {table.name: table for record in finished.values() for table in record["tables"]}
    if not sound:
        raise RuntimeError("there are no finished results to compare with: run `python -m paper all` first.")
    found = []
    for fault in FAULTS:
        with fault.planted():
            tables = fault.touched(data, seed)
        found.append(_compare(fault.name, tables, sound))
    return found


def write(noticed: list[Noticed], path: Path) -> None:
    """Write what was found, for the report."""
    content = {"faults": [asdict(one) for one in noticed]}
    write_atomically(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _compare(name: str, tables: Tables, sound: Mapping[str, Table]) -> Noticed:
    cells, noticed = 0, []
    for table in tables:
        for row, quantity, cell in table.items():
            before = sound[table.name].cells.get(row, {}).get(quantity) if table.name in sound else None
            if cell.measured is None or before is None or before.measured is None:
                continue
            cells += 1
            line = f"{table.name}, {row}, {quantity}"
            if cell.published is not None and cell.margin > LIMIT >= before.margin:
                noticed.append(f"{line}: {before.margin:.1f}σ → {min(cell.margin, 99):.1f}σ from the paper")
            elif (now := _from_law(cell, before)) > LIMIT >= (was := _from_law(before, before)):
                noticed.append(f"{line}: {was:.1f}σ → {min(now, 99):.1f}σ from the exact law")
    return Noticed(name, cells, noticed)


def _from_law(cell: Cell, sound: Cell) -> float:
    """The distance of a cell from the exact law of the sound result, in standard errors of one run; NaN without one."""
    if cell.measured is None or sound.measured is None or sound.measured.exact is None:
        return math.nan
    error = sound.measured.one_run
    gap = abs(cell.measured.value - sound.measured.exact)
    return gap / error if error else math.nan


class LouderULA(ULA):
    """Algorithm 1 with noise that is 2 % too large."""

    program = "none"

    def advance(self, noise: Any, state: Any, beta: float, steps: int) -> Any:
        """Advance the chains by some steps."""
        alpha, r, attend = self.alpha, self.space.bank.d, self.attention.attend
        xi, scale = state.xi + 0, LOUDER * math.sqrt(2 * alpha / beta)
        for _ in range(steps):
            xi = (1 - alpha) * xi + attend(xi, beta, alpha) + scale * noise.normal(r)
            noise.step += 1
        return self._next_state(state, beta / LOUDER**2, steps, xi)


@contextmanager
def _chains(change: Callable[[float, dict[str, Any]], float]) -> Iterator[None]:
    """Chains with other settings: `change` edits the options of a run and returns its beta."""
    sound = sa.run

    def faulty(bank: Any, beta: float, **options: Any) -> Any:
        return sound(bank, change(beta, options), **options)

    with patch.object(sa, "run", faulty):
        yield


def _louder(beta: float, options: dict[str, Any]) -> float:
    if options.get("sampler", "ula") == "ula":
        options["sampler"] = "louder ula"
    return beta


def _colder(beta: float, options: dict[str, Any]) -> float:
    return beta * 1.05


def _longer_steps(beta: float, options: dict[str, Any]) -> float:
    options["alpha"] = 2 * options.get("alpha", protocol.ALPHA)
    return beta


def _with_noise() -> Any:
    sa.register_sampler("louder ula", LouderULA)
    return _chains(_louder)


def _decoder(mean: float = 1.0, radius: float = 1.0, shift: int = 0) -> Any:
    """The published decoder with another mean or radius, or with letters shifted by some places."""
    sound = families.Family.decode

    def faulty(self: families.Family, rows: Any, norms: Any = 1.0) -> Any:
        other = families.Family(self.alignment, self.bank, self.norms, mean * self.mean, self.components)
        codes = sound(other, rows, radius * np.asarray(norms))
        return np.where(codes == families.GAP, codes, (codes + shift) % len(families.LETTERS)) if shift else codes

    return patch.object(families.Family, "decode", faulty)


def _without_mask() -> Any:
    """Chains that run on all memories, with a readout that is masked."""
    sound = faces.Portraits.ends

    def faulty(self: faces.Portraits, bank: Any, *arguments: Any, **options: Any) -> Any:
        return sound(self, self.bank, *arguments, **options)

    return patch.object(faces.Portraits, "ends", faulty)


@contextmanager
def _untrained() -> Iterator[None]:
    """Networks with their initial weights; the cache of trained networks is neither read nor written."""
    with (
        patch.object(training, "_train", lambda network, loss, rows, *rest: _loss_now(loss, rows)),
        patch.object(training, "_load", lambda network, path: None),
        patch.object(training, "_save", lambda network, path, loss: None),
    ):
        yield


def _loss_now(loss: Callable[[Any, Any], Any], rows: Any) -> float:
    torch = training.torch_or_remedy()
    with torch.no_grad():
        return float(loss(torch.zeros((), device=rows.device), rows))


def _digits(data: Data, seed: int) -> Tables:
    return [table for name in ("spectrum", "mala") for table in _of(name, data, seed)]


def _of(name: str, data: Data, seed: int) -> Tables:
    tables: Tables = EXPERIMENTS[name].module.run(data, seed, False).tables
    return tables


def _proteins(data: Data, seed: int) -> Tables:
    """The rows without training, over three runs instead of ten."""
    study = protein_study.Study(families.read_family(data.alignment()), data.profile(), seed, False)
    with patch.object(protein_study, "N_RUNS", N_PROTEIN_RUNS):
        rows = study.static_rows()
        for name, beta in (("SA (β = 77)", protein_study.RETRIEVAL), ("SA (β = 8)", protein_study.GENERATION)):
            rows[name] = study.row(name, lambda s, b=beta: study.by_chains(b, "ula", s))  # type: ignore[misc]
    return [
        protein_tables.PUBLISHED[name].against(
            {row: {q: cells[q] for q in wanted if q in cells} for row, cells in rows.items()}
        )
        for name, wanted in (("protein-main", protein_tables.IN_MAIN), ("protein", protein_tables.IN_FULL))
    ]


def _faces(data: Data, seed: int) -> Tables:
    with patch.object(faces, "N_RUNS", 4):
        return _of("faces", data, seed)


def _learned(data: Data, seed: int) -> Tables:
    """The published VAE and diffusion model on digits, without an epoch of training."""
    bank = data.digits(3, 100)
    model = DDPM(bank.patterns, seed)
    rows: dict[str, dict[str, Measured]] = {
        "VAE (latent 8)": protocol.of_samples(VAE(bank.patterns, seed).sample(protocol.N_SAMPLES, seed), bank, 2000.0),
        "DDPM (T = 200)": {
            **protocol.of_samples(model.sample(protocol.N_SAMPLES, seed), bank, 2000.0),
            "loss": Measured(model.loss),
        },
    }
    return [expected(EXPERIMENTS["mnist"].module.__file__ or "")["mnist-baselines"].against(rows)]


FAULTS = (
    Fault("noise × 1.02", _with_noise, _digits),
    Fault("β × 1.05", lambda: _chains(_colder), _digits),
    Fault("α × 2", lambda: _chains(_longer_steps), _digits),
    Fault("decoder: mean × 0.9", lambda: _decoder(mean=0.9), _proteins),
    Fault("decoder: radius × 1.5", lambda: _decoder(radius=1.5), _proteins),
    Fault("decoder: letters shifted by one", lambda: _decoder(shift=1), _proteins),
    Fault("chain without its mask, readout with it", _without_mask, _faces),
    Fault("untrained baselines", _untrained, _learned),
)
