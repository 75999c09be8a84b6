"""The file of a synthesizer: json and arrays, from which the same draws follow for the same seed."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._backend.files import require_file
from .._backend.state import load_format, read_format, save_state
from .._version import __version__
from ..kinds.codec import conditions_of, plain_conditions
from ..kinds.kind import GeneratorChoice
from ..kinds.options import saved_options
from ..kinds.registry import kind_of
from ..kinds.summary import TrialRecord
from .fitting import Fit
from .trial import Trial

if TYPE_CHECKING:
    from .synthesizer import Synthesizer

NAME = "stochattn synthesizer"
FORMAT = f"{NAME} 2"
SAVED = ("weights", "conditions", "source", "source_sha256")


def save(synth: Synthesizer, path: Path, replace: bool) -> None:
    """Write a synthesizer, in place of one that was saved there, and of any other file only if `replace`."""

    def check() -> None:
        require_file(f"path {os.fspath(path)!r}", path, lambda old: NAME in read_format(old), replace)

    check()
    state = {
        "format": FORMAT,
        "version": __version__,
        "kind": synth.kind.name,
        "codec": synth.codec.state(),
        "generator": synth.choice.name,
        "options": saved_options(synth.choice.options),
        "resolved": synth.describe().resolved,
        "trial": None if synth.trial is None else asdict(synth.trial.record),
        **{name: getattr(synth, name) for name in SAVED},
        "conditions": plain_conditions(synth.conditions),
    }
    save_state(path, state, check)


def load(path: Path) -> dict[str, Any]:
    """The arguments of the Synthesizer that `save` wrote, by name."""
    how = "Synthesizer.save", __version__, "Fit the data and save it again."
    state: dict[str, Any] = load_format(path, FORMAT, *how)
    kind = kind_of(state["kind"])
    choice = GeneratorChoice(state["generator"], kind.generators[state["generator"]](**state["options"]))
    codec, record = kind.codec_from_state(state["codec"]), state.get("trial")
    trial = None if record is None else Trial(kind, codec, choice, TrialRecord.from_plain(record))
    return {
        "generator_fit": Fit(kind, codec, choice, state["weights"], trial, state.get("resolved", {})),
        "conditions": conditions_of(state["conditions"]),
        **{name: state[name] for name in ("source", "source_sha256") if name in state},
    }
