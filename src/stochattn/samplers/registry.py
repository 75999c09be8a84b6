"""The samplers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass

from .._backend.checks import one_of
from .base import AnySampler, Sampler
from .exact import Exact
from .mala import MALA
from .ula import ULA
from .underdamped import Underdamped

SAMPLERS: dict[str, type[AnySampler]] = {"exact": Exact, "ula": ULA, "mala": MALA, "underdamped": Underdamped}


def register_sampler(name: str, sampler: type[AnySampler]) -> None:
    """Make a sampler known by name: `run(bank, beta, sampler=name)` then drives it.

    sampler: a subclass of `stochattn.samplers.base.Sampler`, called as sampler(space, options)
    """
    if not (isinstance(sampler, type) and issubclass(sampler, Sampler)):
        raise TypeError(f"sampler must be a subclass of Sampler; got {sampler!r}.")
    if not is_dataclass(getattr(sampler, "Options", None)) or not hasattr(sampler, "State"):
        raise TypeError(f"{sampler.__name__} must name its Options (a dataclass), its State and its Outside.")
    if SAMPLERS.get(name, sampler) is not sampler:
        raise ValueError(f"there is a sampler {name!r} already. Choose another name.")
    SAMPLERS[name] = sampler


def checked_options(name: str, options: Mapping[str, object]) -> dict[str, object]:
    """All options of a sampler, checked, with defaults for those that are not given."""
    kind = SAMPLERS[one_of("sampler", name, tuple(SAMPLERS))].Options
    known = [field.name for field in fields(kind)]
    unknown = [option for option in options if option not in known]
    if unknown:
        takes = f"has the options {', '.join(known)}" if known else "has no options"
        raise TypeError(f"run has no argument {unknown[0]!r}, and sampler {name!r} {takes}.")
    return asdict(kind(**options))
