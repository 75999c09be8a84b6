"""The summary of a result: what was requested, done and measured, as JSON beside the samples."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType

from .._backend.state import Plain

SUMMARY = "_summary.json"  # readers of Parquet skip files whose names begin with _
"""The summary of a folder of samples; the name of that of a file is the name of the file with .json added."""
_JSON_TYPES: Mapping[str, type | UnionType] = {
    **{"str": str, "bool": bool, "int": int, "int | None": int | None, "str | None": str | None},
    **{"float | None": float | int | None, "tuple[str, ...]": list, "TrialRecord | None": dict | None},
}
"""What JSON holds for the fields of a summary, by their types; types that are not here are mappings."""


@dataclass(frozen=True)
class Asked:
    """What a user requested, which a summary repeats so that samples can be made again.

    options: of reading and of the generator, by name
    conditions, subset, weight: NAME=VALUE strings, strings that select stored items, SELECTION:RATIO strings
    """

    options: Mapping[str, Plain] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    subset: tuple[str, ...] = ()
    weight: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClassShare:
    """The share of a class among new items, and the share that the mixture predicts, if it is known."""

    share: float
    predicted: float | None


@dataclass(frozen=True)
class Attempt:
    """A generator that a trial fitted on a part of the stored items, and how the others judge it.

    two_sample, two_sample_stored: accuracy of distinguishing its items, and the fitted ones, from held-out ones
    near_copies: share of its items as near to a fitted one as the nearest 5 % of the held-out items are
    key_measure: by how much the key measure of the kind is further from its ideal than for the fitted items
    loss:        the worst of the three as a loss, 0 for held-out items, 1 for the worst items
    failure:     why it could not be fitted; then all figures are None
    """

    generator: str
    options: Mapping[str, Plain] = field(default_factory=dict)
    two_sample: float | None = None
    two_sample_stored: float | None = None
    near_copies: float | None = None
    key_measure: float | None = None
    loss: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class TrialRecord:
    """The generator that a trial chose and its options, its attempts, and what a user must know about the choice."""

    generator: str
    options: Mapping[str, Plain] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    warning: str = ""  # that no generator is convincing, and why
    note: str = ""  # why another generator than the default was chosen, or none was tried

    @property
    def notes(self) -> tuple[str, ...]:
        """The warning and the note that are not empty."""
        return tuple(filter(None, (self.warning, self.note)))

    @classmethod
    def from_plain(cls, values: Mapping[str, Plain]) -> TrialRecord:
        """The record that `asdict` made a mapping of."""
        try:
            attempts = tuple(Attempt(**attempt) for attempt in values["attempts"])  # type: ignore[attr-defined]
            return cls(**{**values, "attempts": attempts})  # type: ignore[arg-type]
        except (KeyError, TypeError):
            raise ValueError("the record of a trial is damaged.") from None


@dataclass(frozen=True, kw_only=True)
class RunSummary(Asked):
    """What is known about a file or folder of new items.

    recorded:     whether the choices of the user are recorded, so that the items can be made again from the source
    stored, kept: how many items are stored, and how many of them have a positive weight
    beta, rule, novelty_target: the temperature, if the generator has one: its value, its rule, the requested novelty
    novelty:      mean novelty of the items as drawn; None for items that are made of many stored ones
    novelty_predicted: mean novelty of exact draws, if it is known
    novelty_decoded, copies, near_copies: mean novelty, share of exact copies, and share of items closer to a stored one
                  than 99 % of the stored ones are to each other, of the first items as they are in the file. The last
                  is a share of days for returns, and None if all stored items are equal or only one is stored
    resolved:     values of options that a rule chose, so that a report need not search again
    trial:        the trial on held-out items; None if the user chose the generator
    figures:      measured by the kind of data, by name
    files:        names in a folder of samples, beside the numbered ones new-1.*, new-2.*, …
    bytes:        size of the file
    sha256, source_sha256: checksums of the items and of the source, as `checksum` computes them
    """

    recorded: bool = False
    version: str
    kind: str
    source: str
    output: str
    seed: int
    n: int
    stored: int
    kept: int
    generator: str
    sampler: str
    beta: float | None = None
    rule: str | None = None
    novelty_target: float | None = None
    novelty: float | None = None
    novelty_predicted: float | None = None
    novelty_decoded: float | None = None
    copies: float | None = None
    near_copies: float | None = None
    resolved: Mapping[str, Plain] = field(default_factory=dict)
    trial: TrialRecord | None = None
    classes: Mapping[str, ClassShare] = field(default_factory=dict)
    figures: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int | None = None
    sha256: str | None = None
    source_sha256: str | None = None

    def fits(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file or folder holds exactly the items that this summary is of."""
        changed = self.bytes is not None and os.path.isfile(path) and os.path.getsize(path) != self.bytes
        return not changed and self.sha256 is not None and self.sha256 == checksum(path)

    def to_json(self, indent: int | None = None) -> str:
        """As JSON; numbers that JSON lacks become null."""
        return as_json(asdict(self), indent)

    @classmethod
    def from_json(cls, content: str) -> RunSummary:
        """The summary that `to_json` wrote; ValueError for another string."""
        values = json.loads(content)
        types = {field.name: str(field.type) for field in fields(cls)}
        if not isinstance(values, dict) or values.keys() != types.keys():
            raise ValueError("the text is not the summary of a result.")
        for name, value in values.items():
            if not isinstance(value, _JSON_TYPES.get(types[name], dict)):
                raise ValueError(f"{name} must be of type {types[name]}; got {value!r}.")
            values[name] = tuple(map(str, value)) if isinstance(value, list) else value
        values["trial"] = None if values["trial"] is None else TrialRecord.from_plain(values["trial"])
        return cls(**{**values, "classes": {name: ClassShare(**share) for name, share in values["classes"].items()}})


def as_json(value: Plain, indent: int | None = None) -> str:
    """A plain value as JSON; numbers that JSON lacks become null, and paths strings."""

    def plain(value: Plain) -> Plain:
        if isinstance(value, Mapping):
            return {str(key): plain(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(value), indent=indent, ensure_ascii=False, default=str) + ("\n" if indent else "")


def sidecar(path: str | os.PathLike[str]) -> Path:
    """Where the summary of a result is: in a folder, or beside a file or the file that a link points to."""
    path = Path(path)
    if path.is_dir():
        return path / SUMMARY
    path = path.resolve() if path.is_symlink() else path
    return path.with_name(f"{path.name}.json")


def read_summary(path: str | os.PathLike[str]) -> RunSummary | None:
    """The summary of a result, or None; `RunSummary.fits` says whether the result has changed since."""
    try:
        return RunSummary.from_json(sidecar(path).read_text("utf-8"))
    except (OSError, ValueError, TypeError):
        return None


def checksum(path: str | os.PathLike[str]) -> str | None:
    """SHA-256 of a file, or of the names and contents of the files in a folder; None for what cannot be read twice.

    Hidden files of a folder and its summary do not count, nor does the path of the file or folder itself.
    """
    path = Path(path)
    try:
        if not path.is_dir():
            return _digest(path).hexdigest() if path.is_file() else None
        digest, summary = hashlib.sha256(), sidecar(path)
        inside = {file.relative_to(path): file for file in path.rglob("*") if file.is_file() and file != summary}
        for name in sorted(inside, key=os.fsencode):
            if not any(part.startswith(".") for part in name.parts):
                digest.update(os.fsencode(name.as_posix()) + b"\0" + _digest(inside[name]).digest())
        return digest.hexdigest()
    except OSError:
        return None


def _digest(path: Path) -> hashlib._Hash:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256")
