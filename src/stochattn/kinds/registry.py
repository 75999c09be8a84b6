"""The kinds of data by name. Only this file and the folders of the kinds name one.

A file is offered to the descriptions of all kinds, and only the code of the kind that recognizes it is loaded.

Another package adds its kind by an entry point, which is loaded when a kind is first looked up:

    [project.entry-points."stochattn.kinds"]
    sensor = "my_package.sensors:KIND"

A folder of parts, as the workers of a cluster write it, has several files that together hold what one file could.
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
    """The parts of a folder in their order; none if it holds anything else, or files of different formats."""
    entries = [entry for entry in path.iterdir() if entry.name != SUMMARY] if path.is_dir() else []
    matches = [(match, entry) for entry in entries if (match := PART_NAME.fullmatch(entry.name))]
    are_parts = len(matches) == len(entries) and len({entry.suffix for entry in entries}) == 1
    return [entry for _, entry in sorted((int(match[1]), entry) for match, entry in matches)] if are_parts else []


def read_new(kind: AnyKind, codec: Codec, path: Path) -> Items:
    """The new items of a file or folder that a writer wrote, or of all parts of a folder, in their order."""
    parts = parts_in(path)
    return codec.join([kind.read_new(codec, part) for part in parts]) if parts else kind.read_new(codec, path)


def read_labels(kind: AnyKind, codec: Codec, path: Path) -> Array | None:
    """The class of each of these new items (n,); None unless the file, or each part of the folder, holds classes."""
    labels = [kind.read_labels(codec, part) for part in parts_in(path) or [path]]
    present = [part for part in labels if part is not None]
    return np.concatenate(present) if len(present) == len(labels) else None


# The folders of the built-in kinds. A file is offered to them in this order: a table is the most general.
_MODULES = {"protein": "proteins", "signals": "signals", "image": "images", "returns": "returns", "table": "tables"}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z", ".rar")
_REGISTERED: dict[str, AnyKind] = {}
_PLUGINS = ["stochattn.kinds"]  # groups of entry points that are not loaded yet
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
    """The description of the kind of that name, whose code it does not load; a registered kind is its description."""
    if name in _REGISTERED or name not in _MODULES:
        return kind_of(name)
    description: KindDescription = import_module(f".{_MODULES[name]}.description", __package__).DESCRIPTION
    return description


def descriptions() -> list[KindDescription]:
    """The descriptions of all kinds, registered ones first."""
    return [description_of(name) for name in kind_names()]


def kind_for(source: object, name: str | None = None) -> AnyKind:
    """The kind of that name; by default the kind that recognizes a file, a folder or data in memory."""
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and not os.path.exists(path):  # also for names that no file can have
        raise InputError(f"{path} does not exist: name a file or a folder.")
    if name is not None:
        return kind_of(name)
    file = None if path is None else next(iter(parts_in(path)), path)  # all parts have the same format
    for description in map(description_of, kind_names()):
        if description.accepts(source) if file is None else description.recognizes(file):
            return kind_of(description.name)
    names = ", ".join(kind_names())
    if path is None:
        rule = f"the kind of data is not recognized from {type(source).__name__}"
        if hasattr(source, "to_frame"):  # a column of pandas, polars or another library
            raise InputError(f"{rule}, which is one column: pass a data frame, such as that of its to_frame().")
        raise InputError(f"{rule}: pass a data frame, an array or the path of a file, or kind=, one of {names}.")
    if path.suffix.lower() in COMPRESSED:
        raise InputError(f"{path} is compressed: unpack it, and name the file or the folder that was in it.")
    sign = f"by the extension {path.suffix!r}" if path.suffix else "because the name has no extension"
    formats = "; ".join(description.inputs for description in descriptions() if description.inputs)
    remedy = f"If its format is read, name the kind, one of {names}; else save it in one of these: {formats}"
    raise InputError(f"{path}: the kind of data is not recognized {sign}. {remedy}.")
