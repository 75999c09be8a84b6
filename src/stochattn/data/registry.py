"""The kinds of data, by name. This file and the folders of the kinds are the only places that name one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .kind import AnyKind, Kind
from .options import InputError

_MODULES = {"protein": "proteins", "image": "images", "returns": "returns", "table": "tables"}
"""Built-in kinds and the folder of each. A file is offered to them in this order: a table is the most general."""
_REGISTERED: dict[str, AnyKind] = {}


def register_kind(kind: AnyKind) -> AnyKind:
    """Make a kind of data known to `fit`, the command line and the report, in place of one of the same name."""
    if not isinstance(kind, Kind):
        raise TypeError(f"kind must be an instance of stochattn.data.Kind; got {type(kind).__name__}.")
    _REGISTERED[kind.name] = kind
    return kind


def unregister_kind(name: str) -> None:
    """Forget a kind that was registered; a built-in kind of that name comes back."""
    _REGISTERED.pop(name, None)


def kind_names() -> tuple[str, ...]:
    """All kinds by name, registered ones first."""
    return (*_REGISTERED, *(name for name in _MODULES if name not in _REGISTERED))


def kind_of(name: str) -> AnyKind:
    """The kind of that name."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in _MODULES:
        raise InputError(f"kind must be one of {', '.join(kind_names())}; got {name!r}.")
    kind: AnyKind = import_module(f".{_MODULES[name]}", __package__).KIND
    return kind


def all_kinds() -> tuple[AnyKind, ...]:
    """All kinds, registered ones first."""
    return tuple(kind_of(name) for name in kind_names())


def recognise_file(path: str | Path) -> AnyKind:
    """The kind of data that a file or folder holds."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: name a file or a folder.")
    for kind in map(kind_of, kind_names()):  # one after the other: each loads what it needs to read
        if kind.recognises(path):
            return kind
    known = ", ".join(kind_names())
    raise InputError(
        f"{path}: the kind of data is not recognised by the extension {path.suffix!r}. Name the kind, one of {known}."
    )


def recognise_data(data: object) -> AnyKind:
    """The kind of data that an array, a data frame or a list of texts is."""
    for kind in map(kind_of, kind_names()):
        if kind.accepts(data):
            return kind
    known = ", ".join(kind_names())
    raise InputError(f"the kind of data is not recognised from {type(data).__name__}: pass kind=, one of {known}.")
