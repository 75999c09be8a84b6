"""Draws: what a run of chains returns, and the checkpoint from which it continues."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.checks import check_choice, check_path
from .._backend.files import atomic_file, require_replaceable
from .._backend.state import encode, load_state, read_format

FORMAT = "stochattn draws 2"


@dataclass(frozen=True)
class RunSettings:
    """How a run was made; enough to make it again."""

    sampler: str
    options: Mapping[str, object]  # of the sampler, such as alpha
    beta: float | list[float]
    n_chains: int
    n_steps: int
    warmup: int
    thin: int
    keep: list[int] | None  # the steps, if they were listed instead of warmup and thin
    start: str
    sigma_init: float
    seed: int
    first_chain: int
    K: int
    d: int
    dimensions: int  # in which the chains ran: the rank of the memories, or d
    version: str
    complete: bool = True  # False after Ctrl-C
    device: str = "cpu"  # the same seed gives other chains on a CUDA device, which draws other noise


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run stopped: pass it as `start` to continue the run."""

    settings: RunSettings
    step: int
    due: int  # steps until the next state was to be kept, 0 if the steps were listed
    memories: str  # a fingerprint of the bank
    noise: str  # the class of the random streams
    state: Mapping[str, Array | float]  # of the sampler, by field: one row per chain, or a number that all share


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """The kept states of a run, and how they were made.

    samples:    (n_chains, n_kept, d), in the bank's namespace and dtype
    energies:   (n_chains, n_kept) numpy, E with its constants (Eq. 3) at the beta of that step
    basins:     (n_chains, n_kept) numpy, the memory nearest to each state
    steps:      (n_kept,) numpy, the number of steps after which each state was kept
    acceptance: (n_chains,) numpy, the share of accepted proposals; ones for samplers that never reject
    settings:   sampler, its options, beta, seed, version and more
    last:       pass it as `start` to continue; the result is that of one uninterrupted run

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> draws = sa.run(bank, 20.0, n_chains=3, n_steps=100, warmup=50, thin=10, rng=0)
    >>> draws
    Draws(3 chains x 5 kept, d=2, ula, beta=20, seed=0)
    >>> draws.pooled().shape
    (15, 2)
    """

    samples: Array
    energies: Array
    basins: Array
    steps: Array
    acceptance: Array
    settings: RunSettings
    last: Checkpoint

    def pooled(self) -> Array:
        """All kept states of all chains: (n_chains * n_kept, d)."""
        return self.samples.reshape(-1, self.samples.shape[-1])

    def occupancy(self) -> Array:
        """Share of the kept states nearest to each memory: (K,)."""
        return np.bincount(self.basins.ravel(), minlength=self.settings.K) / max(self.basins.size, 1)

    def crossings(self) -> Array:
        """How often each chain is in another basin than at its previous kept state: (n_chains,)."""
        return (self.basins[:, 1:] != self.basins[:, :-1]).sum(1)

    def to_arviz(self) -> Any:
        """An `arviz.InferenceData` with the samples as `xi` and the energies as sample statistics."""
        settings = asdict(self.settings)
        settings |= {f"option_{name}": value for name, value in settings.pop("options").items()}
        settings = {name: str(v) if isinstance(v, (bool, int)) else v for name, v in settings.items()}
        with warnings.catch_warnings():  # it suspects a transposed array when there are more chains than kept states
            warnings.filterwarnings("ignore", message="More chains", category=UserWarning)
            return _arviz().from_dict(
                posterior={"xi": to_numpy(self.samples)}, sample_stats={"energy": self.energies}, attrs=settings
            )

    def ess(self, of: str = "worst") -> Array | float:
        """Effective sample size (ArviZ, bulk): the least of all, of "energy" alone, or of each coordinate, "xi" (d,).

        The energy alone is not enough: chains stuck in different basins can have the same energies.
        """
        return self._diagnose("ess", min, of)

    def rhat(self, of: str = "worst") -> Array | float:
        """Rank-normalized split R-hat (ArviZ): the largest of all, of "energy" alone, or of each coordinate, "xi"."""
        return self._diagnose("rhat", max, of)

    def _diagnose(self, diagnostic: str, worst: Callable[..., float], of: str) -> Array | float:
        check_choice("of", of, ("worst", "energy", "xi"))
        n_chains, n_kept = self.energies.shape
        if n_kept < 4 or (n_chains < 2 and diagnostic == "rhat"):
            needed = "4 kept states of 2 chains" if diagnostic == "rhat" else "4 kept states"
            got = f"got {n_kept} of {n_chains}. Run longer, thin less, or run more chains."
            raise ValueError(f"{diagnostic} needs at least {needed}; {got}")
        measure = getattr(_arviz(), diagnostic)
        energy = float(measure(self.energies))
        if of == "energy":
            return energy
        xi = measure(self.to_arviz().posterior)["xi"].to_numpy()
        return xi if of == "xi" else float(worst(energy, worst(xi)))

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write everything to one .npz file, whole or not at all; the same draws give the same bytes.

        Draws that were saved there earlier are replaced, and any other file only with `replace=True`.
        """
        place, name = check_path(path), f"path {os.fspath(path)!r}"
        check = partial(require_replaceable, name, place, lambda old: FORMAT[:-1] in read_format(old), replace)
        check()
        last = {name: value for name, value in vars(self.last).items() if name != "settings"}
        value = {**vars(self), "format": FORMAT, "settings": asdict(self.settings), "last": last}
        arrays = dict[str, Array]()
        text = json.dumps(encode(value, arrays), sort_keys=True)
        with atomic_file(place, check) as unfinished, unfinished.open("xb") as file:
            np.savez(file, state=np.array(text), **arrays)  # type: ignore[arg-type]  # noise cannot be compressed

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Draws:
        """Read what `save` wrote; arrays come back as numpy."""
        place = check_path(path)
        try:
            value = load_state(place)
            if not isinstance(value, dict) or value.pop("format") != FORMAT:
                raise ValueError
            settings = RunSettings(**value["settings"])
            return cls(**(value | {"settings": settings, "last": Checkpoint(settings, **value["last"])}))
        except OSError:
            raise
        except Exception as error:
            wrong = f"{os.fspath(path)!r} is not one, or is damaged"
            raise ValueError(f"path must name a file written by Draws.save; {wrong}.") from error

    def __repr__(self) -> str:
        n_chains, n_kept, d = self.samples.shape
        s = self.settings
        beta = f"{s.beta:.4g}" if isinstance(s.beta, float) else f"{s.beta[0]:.4g} to {s.beta[-1]:.4g}"
        rejects = "" if (self.acceptance == 1).all() else f", acceptance {self.acceptance.mean():.3f}"
        stopped = "" if s.complete else f", interrupted after {self.last.step} steps"
        about = f"{n_chains} chains x {n_kept} kept, d={d}, {s.sampler}, beta={beta}, seed={s.seed}"
        return f"Draws({about}{rejects}{stopped})"


def _arviz() -> ModuleType:
    try:
        with warnings.catch_warnings():  # importing it warns, once a day, of a change of its interface
            warnings.simplefilter("ignore", FutureWarning)
            return import_module("arviz")
    except ImportError:
        raise ImportError("diagnostics need ArviZ; install it with: pip install 'stochattn[arviz]'") from None
