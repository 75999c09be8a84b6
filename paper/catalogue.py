"""The experiments by name. Slow ones come first, because experiments start in this order."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class Experiment:
    """A module of `paper.experiments` or `paper.beyond`, and the labels of the tables and figures that it covers."""

    name: str
    title: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    package: str = "experiments"

    @property
    def module(self) -> ModuleType:
        """The imported module of the experiment."""
        return import_module(f"paper.{self.package}.{self.name.replace('-', '_')}")


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("full-vae", "VAEs trained on 10 to 100 times more images", ("full-vae",)),
        Experiment("scaling", "100 to 3,500 memories, against a diffusion model", ("scaling",), ("scaling",)),
        Experiment("mnist", "digit 3 against every baseline", ("mnist-baselines",), ("mnist-baselines", "diffusion")),
        Experiment(
            "digits",
            "digits 1 and 8 against the baselines",
            ("mnist-digit1", "mnist-digit8"),
            ("mnist-digit1-grids", "mnist-digit8-grids"),
        ),
        Experiment("sequence", "daily returns by warm-started MALA", ("finance-sequence",), ("finance-acf-combined",)),
        Experiment(
            "phase-diagram", "load ratio against temperature", ("phase-diagram", "phase-contour"), ("phase-diagram",)
        ),
        Experiment(
            "multihead", "heads on slices of principal components", ("multihead", "multihead-variance"), ("multihead",)
        ),
        Experiment(
            "protein",
            "the RRM family against every baseline",
            ("protein-main", "protein", "protein-temperature"),
            ("protein", "protein-entropy", "protein-decode"),
        ),
        Experiment("step-size", "ULA and MALA from small to large steps", ("stepsize-sweep",), ("stepsize-sweep",)),
        Experiment(
            "returns",
            "a pool of daily returns",
            ("finance-summary",),
            ("finance-qq", "finance-correlation", "finance-tails"),
        ),
        Experiment("convergence", "eight chains against the exact law", ("experiments-b",), ("experiments-b",)),
        Experiment("temperature-sweep", "from noise to recall", ("experiments-a",), ("experiments-a",)),
        Experiment("single-chain", "one long chain", ("single-chain",), ("generation-regimes",)),
        Experiment(
            "faces", "conditional sampling with a mask", ("olivetti-recovery", "olivetti-betasweep"), ("olivetti",)
        ),
        Experiment("trajectories", "snapshots of a chain", (), ("trajectories",)),
        Experiment("mala", "MALA at generation temperature", ("mala-generation",)),
        Experiment("spectrum", "digit 8 at four temperatures", ("temp-spectrum-digit8",), ("temp-spectrum-digit8",)),
        Experiment("vae-grid", "the VAE's grid of latent dimensions and KL weights", ("vae-grid",)),
        Experiment("claims", "statements in the text that no other experiment examines"),
        Experiment("noise-control", "samples against Gaussian noise", ("noise-control",), ("noise-control",)),
        Experiment(
            "denoiser", "a diffusion model without training (not in the paper)", ("closed-form-denoiser",), (), "beyond"
        ),
        Experiment(
            "held-out",
            "the main table by likelihood and two-sample tests (not in the paper)",
            ("held-out",),
            ("held-out",),
            "beyond",
        ),
        Experiment(
            "conv-ddpm",
            "a diffusion model that works (not in the paper)",
            ("conv-ddpm",),
            ("conv-ddpm",),
            "beyond",
        ),
        Experiment(
            "features",
            "draws in the features of a frozen encoder (not in the paper)",
            ("features",),
            ("features",),
            "beyond",
        ),
        Experiment(
            "mixing",
            "how long chains stay at a memory (not in the paper)",
            ("mixing-rates", "mixing-memories", "mixing-data"),
            ("mixing",),
            "beyond",
        ),
        Experiment(
            "exchange-returns",
            "swaps between temperatures on the returns (not in the paper)",
            ("replica-exchange-returns",),
            ("replica-exchange-returns",),
            "beyond",
        ),
        Experiment(
            "replica-exchange", "swaps between temperatures (not in the paper)", ("replica-exchange",), (), "beyond"
        ),
    )
}
