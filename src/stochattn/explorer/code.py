"""The Python lines and the command that give what a page shows, and the file that they write."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import numpy as np

from .._backend.state import Plain
from ..data.options import option_fields
from ..data.output import write_samples
from ..data.ranges import Range
from ..data.summary import Asked, Summary
from .settings import Settings, grouped, select_only
from .state import Explorer

MAX_LISTED = 12  # indices that a line of code lists; of more it lists those that are left out


def python_lines(explorer: Explorer, settings: Settings) -> str:
    """A program that draws the items of these settings as `new`. In a notebook `synth` is the user's own."""
    options, origin = explorer.options(settings), explorer.origin
    functions = [name for name, value in options.items() if callable(value)]
    options = {name: value for name, value in options.items() if name not in functions}
    left_out = [f"# Add {name}=..., a function of yours, which cannot be written here." for name in functions]
    lines = ["import stochattn as sa", "", *left_out]
    if origin is not None:
        kind = [] if origin.kind is None else [f"kind={origin.kind!r}"]
        given = [
            f"{name}={literal(value)}"
            for name, value in {**origin.reading, **_named(explorer, settings, options)}.items()
        ]
        lines.append(f"synth = sa.fit({', '.join([repr(origin.path), *kind, *given])})")
        lines += _weight_lines(explorer.weighted(settings).weights)
    else:
        if options or settings.generator != explorer.base.choice.name:
            given = [repr(settings.generator), *(f"{name}={literal(value)}" for name, value in options.items())]
            lines.append(f"synth = synth.with_generator({', '.join(given)})")
        ratios = np.ones(explorer.base.codec.K)
        for k, ratio in settings.ratios:
            ratios[k] = ratio
        lines += _weight_lines(ratios)
    if settings.conditions:
        values = explorer.base.kind.parse_condition(explorer.base.codec, settings.conditions)
        lines.append(f"synth = synth.condition({literal(values)})")
    return "\n".join([*lines, f"new = synth.sample({settings.n}, rng={settings.seed})"])


def _named(explorer: Explorer, settings: Settings, options: Mapping[str, object]) -> dict[str, object]:
    """The generator as an argument of `fit`, unless it is the default, and its options."""
    is_default = settings.generator == next(iter(explorer.base.kind.generators))
    return {**({} if is_default and not options else {"generator": settings.generator}), **options}


def _weight_lines(weights: np.ndarray) -> list[str]:
    """Lines that make stored items count `weights` (K,) times."""
    lines, counted = [], np.flatnonzero(weights > 0).tolist()
    if len(counted) < len(weights):
        left_out = np.flatnonzero(weights == 0).tolist()
        short = f"[k for k in range({len(weights)}) if k not in {set(left_out)!r}]"
        lines.append(f"synth = synth.subset({counted if len(counted) <= MAX_LISTED else short})")
    ratios = {k: float(weights[k]) for k in counted if weights[k] != 1}
    return [*lines, *(f"synth = synth.weight({ratio!r}, {indices})" for ratio, indices in grouped(ratios).items())]


def literal(value: object) -> str:
    """A value as Python code.

    >>> literal({"age": Range(ge=40), "city": {"Oslo", "Bergen"}, "n": np.float64(2.5)})
    "{'age': sa.Range(ge=40), 'city': {'Bergen', 'Oslo'}, 'n': 2.5}"
    """
    if isinstance(value, Range):
        return f"sa.Range({', '.join(f'{name}={literal(end)}' for name, end in value.ends().items())})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(one)}' for key, one in value.items())}}}"
    if isinstance(value, AbstractSet):
        return f"{{{', '.join(sorted(map(literal, value)))}}}"
    if isinstance(value, tuple):
        inside = ", ".join(map(literal, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, datetime.date | Path):
        return repr(str(value))
    return repr(value)


def asked_for(explorer: Explorer, settings: Settings) -> Asked | None:
    """The choices to type for these settings, as a summary records them; None without a file that they are about."""
    if explorer.origin is None:
        return None
    kind, before = explorer.base.kind, explorer.origin.asked
    reading = {name: value for name, value in before.options.items() if name in option_fields(kind.codec_options)}
    options: dict[str, Plain] = {**reading, **{name: _typed(one) for name, one in explorer.options(settings).items()}}
    weights, subset, weight = explorer.weighted(settings).weights, before.subset, before.weight
    ids, ratios = explorer.base.codec.ids, dict(settings.ratios)
    if 0 in ratios.values():
        subset = (select_only(ids, weights > 0),)
    for ratio, indices in grouped(ratios).items():
        chosen = np.isin(np.arange(len(ids)), indices)
        weight = (*weight, f"{select_only(ids, chosen)}:{ratio!r}")
    return Asked(options, settings.conditions, subset, weight)


def _typed(value: object) -> Plain:
    """A value of an option as the command line reads it: numbers of a tuple are one text."""
    return ":".join(map(str, value)) if isinstance(value, tuple) else value


def command(explorer: Explorer, settings: Settings, out: str) -> str | None:
    """The command that writes the items of these settings to `out`; None without a file that it could read."""
    asked = asked_for(explorer, settings)
    if asked is None or explorer.origin is None:
        return None
    return explorer.origin.command(asked, settings.generator, settings.n, settings.seed, out)


def default_output(explorer: Explorer) -> str:
    """A name for the file of new items, in the format of the input where that can be written."""
    source = Path(explorer.base.source or "items")
    formats = explorer.base.kind.formats
    known = [extension for one in formats for extension in one.extensions]
    extension = source.suffix.lower() if source.suffix.lower() in known else formats[0].extensions[0]
    return f"new-{source.stem}{extension}"


def save(explorer: Explorer, settings: Settings, out: str) -> Summary:
    """Write the items of these settings, as the command does: whole, with a summary, and never over other files."""
    synth = explorer.synthesizer(settings)
    return write_samples(synth, settings.n, settings.seed, out, asked=asked_for(explorer, settings))
