"""Files of a HopfieldMemory: its tensors and settings in the format of safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import Tensor

from .._backend.files import write_whole
from .._backend.places import require_replaceable

KIND = "stochattn.HopfieldMemory"


@dataclass(frozen=True)
class SavedMemory:
    """The tensors of a memory by their names in its state dict, and which of them are parameters."""

    tensors: Mapping[str, Tensor]
    learn: bool
    learn_beta: bool


def write_memory(path: str | os.PathLike[str], memory: SavedMemory, replace: bool) -> None:
    """Write a memory, whole or not at all; a file that is not a saved memory is replaced only with `replace`."""

    def check() -> None:
        require_replaceable(f"path {os.fspath(path)!r}", Path(path), _is_saved_memory, replace)

    check()
    tensors = {name: x.detach().contiguous() for name, x in memory.tensors.items()}
    settings = {"kind": KIND, "learn": str(memory.learn)} | ({"learn_beta": "True"} if memory.learn_beta else {})
    write_whole(Path(path), _in_order(_safetensors().torch.save(tensors, settings)), check)


def read_memory(path: str | os.PathLike[str]) -> SavedMemory:
    """The memory in a file, on the CPU; ValueError if `write_memory` did not write it."""
    library = _safetensors()
    if not Path(path).is_file():
        raise FileNotFoundError(f"path must name a safetensors file; there is no file {str(path)!r}.")
    try:
        with library.safe_open(Path(path), "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dictionary
    except library.SafetensorError as error:
        raise ValueError(f"path must name a safetensors file; {str(path)!r} is not one ({error}).") from None
    needed = {"patterns", "beta", "log_r"}
    ours = metadata.get("kind") == KIND and needed <= tensors.keys() <= needed | {"values"}
    if not (ours and tensors["patterns"].is_floating_point() and _beta_fits(tensors["beta"], tensors["patterns"])):
        raise ValueError(f"path must name a file that HopfieldMemory.save wrote; {str(path)!r} is not one.")
    return SavedMemory(tensors, metadata.get("learn") == "True", metadata.get("learn_beta") == "True")


def _in_order(data: bytes) -> bytes:
    """The same file with its settings in alphabetical order, so that equal memories have equal files.

    The library writes them in an order that varies from call to call. A file begins with the length of its header in
    eight bytes and the header in JSON, padded with spaces.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    return data[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(end - 8) + data[end:]


def _beta_fits(beta: Tensor, patterns: Tensor) -> bool:
    return bool(beta.numel() == 1 or beta.shape == patterns.shape[:-2])


def _is_saved_memory(path: Path) -> bool:
    library = _safetensors()
    try:
        with library.safe_open(path, "pt") as file:
            return (file.metadata() or {}).get("kind") == KIND
    except (library.SafetensorError, OSError):
        return False


def _safetensors() -> ModuleType:
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise ImportError("saving and loading need safetensors: pip install 'stochattn[torch]'") from None
    return safetensors
