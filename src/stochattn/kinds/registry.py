"""The kinds of data, by name. This file and the folders of the kinds are the only places that name one.

A file is offered to the descriptions of all kinds, and only the code of the kind that recognizes it is loaded.

Another package adds its kind by an entry point, which is loaded when a kind is first looked up:

    [project.entry-points."stochattn.kinds"]
    sensor = "my_package.sensors:KIND"

Folders of parts, as the workers of a cluster write them: several files that together hold what one file could.
"""

from __future__ import annotations

import os
import re
import warnings
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from .._backend.checks import suggest_names
from .options import InputError
from .summary import SUMMARY

if TYPE_CHECKING:
    from .._backend.arrays import Array
    from .codec import Codec, Items
    from .kind import AnyKind
    from .options import KindDescription

PART_NAME = re.compile(r"part-(\d{5,})\.\w+")


def parts_in(path: Path) -> list[Path]:
    """The parts of a folder, in their order; none if it holds anything else, or files of different formats."""
    entries = [entry for entry in path.iterdir() if entry.name != SUMMARY] if path.is_dir() else []
    numbers = {entry: PART_NAME.fullmatch(entry.name) for entry in entries}
    order = {entry: int(number[1]) for entry, number in numbers.items() if number is not None}
    are_parts = len(order) == len(entries) and len({entry.suffix for entry in order}) == 1
    return sorted(order, key=lambda entry: order[entry]) if are_parts else []


def read_new(kind: AnyKind, codec: Codec, path: Path) -> Items:
    """The new items of a file or folder that a writer wrote, or of all parts of a folder, in their order."""
    parts = parts_in(path)
    return codec.join([kind.read_new(codec, part) for part in parts]) if parts else kind.read_new(codec, path)


def read_labels(kind: AnyKind, codec: Codec, path: Path) -> Array | None:
    """The class of each of these new items, where the file or all parts of the folder say it: (n,)."""
    labels = [kind.read_labels(codec, part) for part in parts_in(path) or [path]]
    present = [part for part in labels if part is not None]
    return np.concatenate(present) if len(present) == len(labels) else None


_MODULES = {
    "protein": "proteins",
    "signals": "signals",
    "image": "images",
    "returns": "returns",
    "table": "tables",
}
"""Built-in kinds and the folder of each. A file is offered to them in this order: a table is the most general."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z", ".rar")
_REGISTERED: dict[str, AnyKind] = {}
_PLUGINS = ["stochattn.kinds"]
"""Groups of entry points that are not loaded yet."""
_LOADING = RLock()  # re-entrant: a plug-in may look up kinds while it is loaded


def register_kind(kind: AnyKind) -> AnyKind:
    """Make a kind of data known to `fit`, the command line and the report, in place of one of the same name.

    >>> import stochattn as sa
    >>> from stochattn.kinds.registry import kind_of
    >>> sa.register_kind(kind_of("protein")).items
    'sequences'
    """
    from .kind import Kind

    named = all(isinstance(getattr(kind, name, None), str) for name in ("name", "item", "items"))
    if not isinstance(kind, Kind) or not named:
        raise TypeError(f"kind must be an instance of stochattn.kinds.Kind with name, item and items; got {kind!r}.")
    _REGISTERED[kind.name] = kind
    return kind


def kind_names() -> tuple[str, ...]:
    """All kinds by name, registered ones first.

    >>> from stochattn.kinds import kind_names
    >>> {"image", "protein", "returns", "signals", "table"} <= set(kind_names())
    True
    """
    with _LOADING:
        while _PLUGINS:
            for entry in entry_points(group=_PLUGINS.pop()):
                try:
                    kind = entry.load()
                    if getattr(kind, "name", None) not in _REGISTERED:  # a program's own takes precedence
                        register_kind(kind)
                except Exception as error:  # other people's code must not stop a program that does not need it
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    warnings.warn(f"the plug-in {entry.name!r} ({entry.value}) was not loaded: {reason}", stacklevel=2)
    return (*_REGISTERED, *(name for name in _MODULES if name not in _REGISTERED))


def kind_of(name: str) -> AnyKind:
    """The kind of that name."""
    if name not in kind_names():
        like = suggest_names(str(name), kind_names())
        raise InputError(f"kind must be one of {', '.join(kind_names())}; got {name!r}. {like}".rstrip())
    if name in _REGISTERED:
        return _REGISTERED[name]
    kind: AnyKind = import_module(f".{_MODULES[name]}.kind", __package__).KIND
    return kind


def description_of(name: str) -> KindDescription:
    """What is known about the kind of that name without its code: the kind itself where a program registered it."""
    if name in _REGISTERED or name not in _MODULES:
        return kind_of(name)
    described: KindDescription = import_module(f".{_MODULES[name]}.description", __package__).DESCRIPTION
    return described


def descriptions() -> list[KindDescription]:
    """What is known about all kinds without their code, registered ones first."""
    return [description_of(name) for name in kind_names()]


def kind_for(source: object, name: str | None = None) -> AnyKind:
    """The kind of that name, or else the kind of data that a file or folder holds, or that data in memory is."""
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and not os.path.exists(path):  # also for names that no file can have
        raise InputError(f"{path} does not exist: name a file or a folder.")
    if name is not None:
        return kind_of(name)
    looked_at = None if path is None else next(iter(parts_in(path)), path)  # parts are all alike
    for name in kind_names():
        described = description_of(name)
        if described.accepts(source) if looked_at is None else described.recognizes(looked_at):
            return kind_of(name)
    names = ", ".join(kind_names())
    if path is None:
        rule = f"the kind of data is not recognized from {type(source).__name__}"
        if hasattr(source, "to_frame"):  # a column of pandas, polars or another library
            raise InputError(f"{rule}, which is one column: pass a data frame, such as that of its to_frame().")
        raise InputError(f"{rule}: pass a data frame, an array or the path of a file, or kind=, one of {names}.")
    if path.suffix.lower() in COMPRESSED:
        raise InputError(f"{path} is compressed: unpack it, and name the file or the folder that was in it.")
    sign = f"by the extension {path.suffix!r}" if path.suffix else "because the name has no extension"
    formats = "; ".join(described.inputs for described in descriptions() if described.inputs)
    raise InputError(
        f"{path}: the kind of data is not recognized {sign}. If its format is read, "
        f"name the kind, one of {names}; else save it in one of these: {formats}."
    )
