"""The kinds of data, by name. This file and the folders of the kinds are the only places that name one.

Another package adds its kind by an entry point, which is loaded when a kind is first looked up:

    [project.entry-points."stochattn.kinds"]
    sensor = "my_package.sensors:KIND"
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from threading import RLock

from .._backend.checks import suggestion
from .kind import AnyKind, Kind
from .options import InputError
from .part_files import parts_in

_MODULES = {
    "protein": "proteins",
    "signals": "signals",
    "image": "images",
    "returns": "returns",
    "table": "tables",
}
"""Built-in kinds and the folder of each. A file is offered to them in this order: a table is the most general."""
_REGISTERED: dict[str, AnyKind] = {}
_PLUGINS = ["stochattn.kinds"]
"""Groups of entry points that are not loaded yet."""
_LOADING = RLock()  # re-entrant: a plug-in may look up kinds while it is loaded


def register_kind(kind: AnyKind) -> AnyKind:
    """Make a kind of data known to `fit`, the command line and the report, in place of one of the same name.

    >>> import stochattn as sa
    >>> from stochattn.data.registry import kind_of
    >>> sa.register_kind(kind_of("protein")).items
    'sequences'
    """
    named = all(isinstance(getattr(kind, name, None), str) for name in ("name", "item", "items"))
    if not isinstance(kind, Kind) or not named:
        raise TypeError(f"kind must be an instance of stochattn.data.Kind with name, item and items; got {kind!r}.")
    _REGISTERED[kind.name] = kind
    return kind


def kind_names() -> tuple[str, ...]:
    """All kinds by name, registered ones first.

    >>> from stochattn.data import kind_names
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
        like = suggestion(str(name), kind_names())
        raise InputError(f"kind must be one of {', '.join(kind_names())}; got {name!r}. {like}".rstrip())
    if name in _REGISTERED:
        return _REGISTERED[name]
    kind: AnyKind = import_module(f".{_MODULES[name]}", __package__).KIND
    return kind


def kind_for(source: object, name: str | None = None) -> AnyKind:
    """The kind of that name, or else the kind of data that a file or folder holds, or that data in memory is."""
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and not os.path.exists(path):  # also for names that no file can have
        raise InputError(f"{path} does not exist: name a file or a folder.")
    if name is not None:
        return kind_of(name)
    looked_at = None if path is None else next(iter(parts_in(path)), path)  # parts are all alike
    for kind in map(kind_of, kind_names()):  # one after the other: each loads what it needs to read
        if kind.accepts(source) if looked_at is None else kind.recognises(looked_at):
            return kind
    where, how = ("", f"from {type(source).__name__}: pass kind=")
    if path is not None:
        where, how = (f"{path}: ", f"by the extension {path.suffix!r}: name the kind")
    raise InputError(f"{where}the kind of data is not recognised {how}, one of {', '.join(kind_names())}.")
