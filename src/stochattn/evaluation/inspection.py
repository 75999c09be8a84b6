"""What is stored, where its temperature transition lies, and which beta each rule picks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._backend.arrays import Array, to_numpy
from .._backend.files import whole_file
from ..core import temperature
from ..core.entropy_curve import EntropyCurve
from ..core.neighbors import neighbor_distances
from ..core.temperature import RULES
from ..data.legacy import Codec, Loss

WEIGHED = ("natural", "leave_one_out")  # rules that know of equal weights


class Choice(NamedTuple):
    """What a rule picks: its beta and the novelty draws then have; or why it picks none."""

    rule: str
    beta: float
    novelty: float
    failure: str = ""


class Inspection(NamedTuple):
    """What `inspect` shows."""

    kind: str
    K: int
    d: int
    rank: int
    norms: tuple[float, float]
    duplicates: int
    classes: dict[str, int]
    columns: tuple[tuple[str, str], ...]  # of a table, with their kinds
    loss: Loss
    curve: EntropyCurve
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    native: str  # what `sample` draws by where nothing is said, "" for p_beta

    def facts(self) -> dict[str, Any]:
        """The same for json."""
        shown = {name: getattr(self, name) for name in ("kind", "K", "d", "rank", "duplicates", "classes")}
        choices = {
            choice.rule.replace("_", "-"): {"beta": choice.beta, "novelty": choice.novelty}
            if not choice.failure
            else {"failure": choice.failure}
            for choice in self.choices
        }
        return {
            **shown,
            "columns": dict(self.columns),
            "native": self.native,
            "norms": list(self.norms),
            "loss": self.loss._asdict(),
            "rules": choices,
            "curve": {"beta": self.curve.beta.tolist(), "entropy": self.curve.entropy.tolist()},
            "notes": list(self.notes),
        }


def inspect(codec: Codec) -> Inspection:
    """All of it, for the items that a codec stores."""
    bank = codec.bank
    choices = tuple(_choice(codec, rule) for rule in RULES)
    norms = codec.coordinates.norms
    return Inspection(
        codec.kind,
        bank.K,
        bank.d,
        bank.rank,
        (float(np.min(norms)), float(np.max(norms))),
        int((neighbor_distances(bank) <= 1e-9 * bank.M).sum()) if bank.K > 1 else 0,
        {} if codec.labels is None else {name: codec.labels.count(name) for name in sorted(set(codec.labels))},
        tuple((c.name, c.kind) for c in getattr(codec, "columns", ()) if hasattr(c, "kind")),
        codec.loss(),
        temperature.entropy_curve(bank, betas_around(bank, [choice.beta for choice in choices])),
        choices,
        codec.notes,
        codec.native_name,
    )


def betas_around(bank: Any, betas: list[float]) -> Array:
    """A grid of beta from diffuse to sharp attention, with these betas inside: (120,)."""
    inside = [beta for beta in betas if math.isfinite(beta)]
    spread = float(np.ptp(to_numpy(bank.patterns @ bank.patterns[:1].T))) or 1.0
    low, high = min([0.1 / spread, *(b / 10 for b in inside)]), max([100 / spread, *(b * 10 for b in inside)])
    return np.geomspace(low, high, 120)


def draw(inspection: Inspection, path: Path) -> None:
    """The entropy curve and the rules' betas, as a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    curve = inspection.curve
    axes.semilogx(curve.beta, curve.entropy, color="#222222", label="attention entropy")
    axes.axhline(math.log(inspection.K), color="#999999", lw=0.8, ls=":")
    for number, choice in enumerate(c for c in inspection.choices if not c.failure):
        about = f"{choice.rule.replace('_', '-')}: beta {choice.beta:.3g}, novelty {choice.novelty:.2f}"
        axes.axvline(choice.beta, color=f"C{number}", label=about)
    axes.set_xlabel("inverse temperature beta")
    axes.set_ylabel("entropy (nats)")
    axes.set_title(f"{inspection.K} stored, d = {inspection.d}: from diffuse (left) to recall (right)", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    with whole_file(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=150, metadata={"Software": None})


def _choice(codec: Codec, rule: str) -> Choice:
    weights = {"equal_weights": codec.equal_weights}
    try:
        beta = getattr(temperature, rule)(codec.bank, **(weights if rule in WEIGHED else {}))
        return Choice(rule, beta, temperature.novelty_at(codec.bank, beta, **weights))
    except ValueError as error:
        return Choice(rule, math.nan, math.nan, str(error))
