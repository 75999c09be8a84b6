"""Draws: what a run of chains returns, and the checkpoint from which it continues."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.checks import one_of
from .subspace import Nothing, Relaxing, Rest, Walking

FORMAT = "stochattn draws 1"
PARTS = ("samples", "energies", "basins", "steps", "acceptance")
RESTS = {kind.__name__: kind for kind in (Nothing, Relaxing, Walking)}


@dataclass(frozen=True)
class Settings:
    """How a run was made; enough to make it again."""

    sampler: str
    beta: float | list[float]
    alpha: float
    n_chains: int
    n_steps: int
    warmup: int
    thin: int
    keep: list[int] | None  # the steps asked for, if given instead of warmup and thin
    start: str
    sigma_init: float
    seed: int
    first_chain: int
    K: int
    d: int
    dimensions: int  # in which the chains ran: the rank of the memories, or d
    version: str
    complete: bool = True  # False after Ctrl-C
    lone: bool = False
    device: str = "cpu"  # a CUDA device has noise of its own: the same seed gives other chains there


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run stopped: pass it as `start` to go on as if it never had."""

    sampler: str
    seed: int
    first_chain: int
    step: int
    due: int  # steps until the next state was to be kept, 0 if its steps were given one by one
    memories: str  # a fingerprint of the bank
    xi: Array  # (n_chains, r)
    rest: Rest
    lone: bool = False  # computed as a vector, and to be continued so
    noise: str = "Tapes"  # the kind of `_random.Streams`

    @property
    def n_chains(self) -> int:
        """How many chains it holds."""
        return len(self.xi)


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """The kept states of a run, and how they came about.

    samples:    (n_chains, n_kept, d), in the bank's namespace and dtype
    energies:   (n_chains, n_kept) numpy, E with its constants (Eq. 3) at the beta of that step
    basins:     (n_chains, n_kept) numpy, the memory nearest to each state
    steps:      (n_kept,) numpy, the number of steps after which each state was kept
    acceptance: (n_chains,) numpy, the share of accepted proposals; ones for samplers that never reject
    settings:   sampler, beta, alpha, seed, version and the rest
    last:       pass it as `start` to go on; the result is that of one uninterrupted run
    """

    samples: Array
    energies: Array
    basins: Array
    steps: Array
    acceptance: Array
    settings: Settings
    last: Checkpoint

    def pooled(self) -> Array:
        """All kept states of all chains: (n_chains * n_kept, d)."""
        return self.samples.reshape(-1, self.samples.shape[-1])

    def occupancy(self) -> Array:
        """Share of the kept states nearest to each memory: (K,)."""
        counts = np.bincount(self.basins.ravel(), minlength=self.settings.K)
        return counts / max(self.basins.size, 1)

    def crossings(self) -> Array:
        """How often each chain is found in another basin than at its previous kept state: (n_chains,)."""
        return (self.basins[:, 1:] != self.basins[:, :-1]).sum(1)

    def to_arviz(self) -> Any:
        """An `arviz.InferenceData` with the samples as `xi` and the energies as sample statistics."""
        settings = {name: str(v) if isinstance(v, (bool, int)) else v for name, v in asdict(self.settings).items()}
        with warnings.catch_warnings():  # it suspects a transposed array when there are more chains than kept states
            warnings.filterwarnings("ignore", message="More chains", category=UserWarning)
            return _arviz().from_dict(
                posterior={"xi": to_numpy(self.samples)}, sample_stats={"energy": self.energies}, attrs=settings
            )

    def ess(self, of: str = "worst") -> Any:
        """Effective sample size (ArviZ, bulk): the least of all, of "energy" alone, or of each coordinate, "xi" (d,).

        Energies alone reassure wrongly: chains stuck in different basins can agree on them.
        """
        return self._diagnose("ess", min, of)

    def rhat(self, of: str = "worst") -> Any:
        """Rank-normalised split R-hat (ArviZ): the largest of all, of "energy" alone, or of each coordinate, "xi"."""
        return self._diagnose("rhat", max, of)

    def _diagnose(self, diagnostic: str, worst: Callable[..., Any], of: str) -> Any:
        one_of("of", of, ("worst", "energy", "xi"))
        n_chains, n_kept = self.energies.shape
        if n_kept < 4 or (n_chains < 2 and diagnostic == "rhat"):
            raise ValueError(
                f"{diagnostic} needs at least 4 kept states{' of 2 chains' if diagnostic == 'rhat' else ''}; "
                f"got {n_kept} of {n_chains}. Run longer, thin less, or run more chains."
            )
        measure = getattr(_arviz(), diagnostic)
        energy = float(measure(self.energies))
        if of == "energy":
            return energy
        xi = measure(self.to_arviz().posterior)["xi"].to_numpy()
        return xi if of == "xi" else float(worst(energy, worst(xi)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one .npz file, whole or not at all; the same draws give the same bytes."""
        rest = self.last.rest
        about = {
            "format": FORMAT,
            "settings": asdict(self.settings),
            "last": {
                name: getattr(self.last, name)
                for name in ("sampler", "seed", "first_chain", "step", "due", "memories", "lone", "noise")
            },
            "rest": type(rest).__name__,
        }
        arrays = {
            **{
                name: to_numpy(getattr(self, name)) for name in ("samples", "energies", "basins", "steps", "acceptance")
            },
            "last_xi": to_numpy(self.last.xi),
            **{f"rest_{name}": to_numpy(value) for name, value in rest._asdict().items()},
            "about": np.array(json.dumps(about, sort_keys=True)),
        }
        _write_whole(Path(path), arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Draws:
        """Read what `save` wrote; arrays come back as numpy."""
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(str(arrays["about"]))
            if about["format"] != FORMAT:
                raise ValueError(about["format"])
            kind = RESTS[about["rest"]]
            rest = kind(*(_scalar(arrays[f"rest_{name}"]) for name in kind._fields))
            return cls(
                **{name: arrays[name] for name in PARTS},
                settings=Settings(**about["settings"]),
                last=Checkpoint(**about["last"], xi=arrays["last_xi"], rest=rest),
            )
        except OSError:
            raise
        except Exception as error:
            raise ValueError(
                f"path must name a file written by Draws.save; {os.fspath(path)!r} is not one, or is damaged."
            ) from error

    def __repr__(self) -> str:
        n_chains, n_kept, d = self.samples.shape
        s = self.settings
        beta = f"{s.beta:.4g}" if isinstance(s.beta, float) else f"{s.beta[0]:.4g} to {s.beta[-1]:.4g}"
        rejects = "" if (self.acceptance == 1).all() else f", acceptance {self.acceptance.mean():.3f}"
        stopped = "" if s.complete else f", interrupted after {self.last.step} steps"
        about = f"{n_chains} chains x {n_kept} kept, d={d}, {s.sampler}, beta={beta}, seed={s.seed}"
        return f"Draws({about}{rejects}{stopped})"


def _arviz() -> Any:
    try:
        with warnings.catch_warnings():  # its import announces, once a day, a change of its own interface
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError:
        raise ImportError("diagnostics need ArviZ; install it with: pip install 'stochattn[arviz]'") from None
    return arviz


def _scalar(array: Any) -> Any:
    return float(array) if array.ndim == 0 else array


def _write_whole(path: Path, arrays: dict[str, Any]) -> None:
    path = path.resolve()  # write through a link, not over it
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"path must lie in a folder that exists; {str(path.parent)!r} does not. Create it first."
        )
    if path.exists() and not path.is_file():
        raise OSError(f"path must name a file; {str(path)!r} is something else.")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(unfinished, "xb") as file:
            np.savez(file, **arrays)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
