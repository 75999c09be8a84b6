"""Folders of parts, as the workers of a cluster write them: several files that together hold what one file could."""

from __future__ import annotations

import re
from pathlib import Path

from .base import Codec, Items
from .kind import AnyKind
from .summary import SUMMARY

PART_NAME = re.compile(r"part-(\d{5,})\.\w+")


def parts_in(path: Path) -> list[Path]:
    """The parts of a folder, in their order; none if it holds anything else, or files of different formats."""
    entries = [entry for entry in path.iterdir() if entry.name != SUMMARY] if path.is_dir() else []
    numbers = {entry: PART_NAME.fullmatch(entry.name) for entry in entries}
    found = {entry: int(number[1]) for entry, number in numbers.items() if number is not None}
    whole = len(found) == len(entries) and len({entry.suffix for entry in found}) == 1
    return sorted(found, key=lambda entry: found[entry]) if whole else []


def read_codec(kind: AnyKind, path: Path, options: object, recognised: bool) -> Codec:
    """The codec of a file, a folder or a folder of parts; recognised: whether the user did not name the kind."""
    if parts := parts_in(path):
        return kind.read_parts(parts, options)  # type: ignore[no-any-return]  # the codec of any kind
    codec: Codec = kind.read_recognised(path, options) if recognised else kind.read(path, options)
    return codec


def read_new(kind: AnyKind, codec: Codec, path: Path) -> Items:
    """The new items of a file or folder that a writer wrote, or of all parts of a folder, in their order."""
    parts = parts_in(path)
    return codec.join([kind.read_new(codec, part) for part in parts]) if parts else kind.read_new(codec, path)
