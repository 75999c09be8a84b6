"""The report that a user asks for: from files to a page."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .._backend.files import write_whole
from ..data.kind import AUTO
from ..data.options import InputError, option_fields
from ..data.summary import Summary, read_summary, sidecar
from ..output import require_place
from .messages import say, working
from .request import Request

N_DRAWN = 500


def write_report(
    ask: Callable[..., Request], source: Path, samples: Path | None, page: Path, n: int | None, seed: int | None
) -> None:
    """Write the report of samples, or of n items that are drawn for it."""
    from ..evaluation import as_evaluated
    from ..report import build_report

    _require_page(page, source, samples)
    if samples is not None and n is not None:
        raise InputError("-n is for reports that draw their own examples: leave out -n, or leave out SAMPLES.")
    summary = None if samples is None else _known(samples, source)
    request = ask() if summary is None else _as_recorded(ask(default_kind=summary.kind), summary, samples, seed)
    with working(f"reading {source}"):
        synth = request.synthesizer()
    seed = summary.seed if summary is not None else seed or 0
    if samples is None:
        with working("drawing"):
            items = as_evaluated(synth).sample_items(n or N_DRAWN, seed)
    else:
        items = synth.kind.read_new(synth.codec, samples)
    words = ["sample", source, "-n", len(items), *request.words(), "--seed", seed, "-o", samples or "OUT"]
    if samples is not None and summary is None:  # how they were made is not known
        words = ["report", source, samples]
    command = shlex.join(["stochattn", *map(str, words)])
    made = {"samples": None if samples is None else str(samples), "command": command}
    write_whole(page, build_report(synth, items, source=str(source), summary=summary, seed=seed, **made))


def _as_recorded(request: Request, summary: Summary, samples: Path | None, seed: int | None) -> Request:
    """The request that the summary records; the user may add options of reading, and no others."""
    asked, reading = request.asked, option_fields(request.kind.codec_options)
    drawing = {name: value for name, value in asked.options.items() if name not in reading}
    given = {
        "--kind": request.kind.name != summary.kind,
        "--generator": request.generator != AUTO,
        "--condition": asked.conditions,
        "--subset": asked.subset,
        "--weight": asked.weight,
        **{word: word.startswith("--") for word in request.options.words(request.kind, drawing)},
        "--seed": seed is not None,
    }
    contradicting = ", ".join(flag for flag, is_given in given.items() if is_given)
    if contradicting:
        raise InputError(f"{contradicting}: the summary beside {samples} records how it was made. Leave this out.")
    recorded = replace(summary, options={**summary.options, **asked.options})
    return replace(request, generator=summary.generator, asked=recorded)


def _require_page(page: Path, source: Path, samples: Path | None) -> None:
    """InputError, before any work, if the page cannot be written or would replace what the report is about."""
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o {page} must end in .html, because the report is an HTML page.")
    if page.resolve() in {place.resolve() for place in (source, samples) if place is not None}:
        raise InputError(f"-o {page} is what the report is about: name another file.")
    require_place(f"-o {page}", page)


def _known(samples: Path, source: Path) -> Summary | None:
    """The summary beside samples, if it is of them and of this source; a note says why it is not used."""
    if not samples.exists():
        raise InputError(f"{samples} does not exist: name a file that `stochattn sample` wrote.")
    summary = read_summary(samples)
    if summary is None:
        if sidecar(samples).exists():
            say(f"note: {sidecar(samples)} is not a summary of {samples} as it is now, and is not used.")
    elif not summary.recorded:
        say(f"note: {samples} was written by a Python program: its settings are not known.")
    elif Path(summary.source).name != source.name:
        say(f"note: {samples} was made from {summary.source}, not from {source}: its settings are not used.")
    else:
        return summary
    return None
