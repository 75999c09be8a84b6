"""The commands `report` and `demo`: from files to a page."""

from __future__ import annotations

import io
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .._backend.files import probe, write_whole
from ..data.kind import AUTO
from ..data.options import InputError, option_fields
from ..data.output import Asked, format_of, require_writable, write_samples
from ..data.summary import Summary, read_summary, sidecar
from .kind_options import KindOptions
from .messages import say, summary_text, working
from .request import Choices, Request

N_DRAWN = 500
DEMO_STORED, DEMO_NEW = 300, 100


@dataclass(frozen=True)
class ReportRequest:
    """The report that a user asks for.

    samples: new items, or None to draw n of them
    out:     the page, or None for a place beside the samples or the source
    """

    options: KindOptions
    source: Path
    samples: Path | None
    out: Path | None
    n: int | None
    seed: int | None
    choices: Choices

    @property
    def page(self) -> Path:
        """The file of the report."""
        return self.out or (self.samples or self.source).with_suffix(".html")


def write_report(asked: ReportRequest) -> Path:
    """Write the report of samples, or of items that are drawn for it; returns where."""
    from ..evaluation import as_evaluated
    from ..report import build_report

    _require_page(asked.page, asked.source, asked.samples)
    if asked.samples is not None and asked.n is not None:
        raise InputError("-n is for reports that draw their own examples: leave out -n, or leave out SAMPLES.")
    summary = None if asked.samples is None else _known(asked.samples, asked.source)
    if summary is None:
        request = Request.of(asked.options, asked.source, asked.choices)
    else:
        request = _as_recorded(asked, summary)
    with working(f"reading {asked.source}"):
        synth = request.synthesizer()
    seed = summary.seed if summary is not None else asked.seed or 0
    if asked.samples is None:
        with working("drawing"):
            items = as_evaluated(synth).sample_items(asked.n or N_DRAWN, seed)
    else:
        items = synth.kind.read_new(synth.codec, asked.samples)
    page = build_report(
        synth,
        items,
        source=str(asked.source),
        samples=None if asked.samples is None else str(asked.samples),
        summary=summary,
        seed=seed,
        command=_command(request, asked, summary, len(items), seed),
    )
    write_whole(asked.page, page)
    return asked.page


def _as_recorded(asked: ReportRequest, summary: Summary) -> Request:
    """The request that the summary records; the user may add options of reading, and no others."""
    choices = replace(asked.choices, kind=asked.choices.kind or summary.kind)
    request = Request.of(asked.options, asked.source, choices)
    reading = option_fields(request.kind.codec_options)
    drawing = {name: value for name, value in request.asked.options.items() if name not in reading}
    given = {
        "--kind": request.kind.name != summary.kind,
        "--generator": choices.generator != AUTO,
        "--condition": choices.conditions,
        "--subset": choices.subset,
        "--weight": choices.weight,
        **dict.fromkeys((word for word in asked.options.words(request.kind, drawing) if word.startswith("--")), True),
        "--seed": asked.seed is not None,
    }
    contradicting = [flag for flag, is_given in given.items() if is_given]
    if contradicting:
        flags = ", ".join(contradicting)
        raise InputError(f"{flags}: the summary beside {asked.samples} records how it was made. Leave this out.")
    recorded = Request.again(asked.options, asked.source, summary)
    options = {**recorded.asked.options, **request.asked.options}
    return replace(recorded, asked=replace(recorded.asked, options=options))


def _command(request: Request, asked: ReportRequest, summary: Summary | None, n: int, seed: int) -> str:
    """What to type for the same items; for samples of unknown making, for the same report."""
    source = str(asked.source)
    if asked.samples is not None and summary is None:
        return shlex.join(["stochattn", "report", source, str(asked.samples)])
    out = "OUT" if asked.samples is None else str(asked.samples)
    return shlex.join(
        ["stochattn", "sample", source, "-n", str(n), *request.words(), "--seed", str(seed), "-o", out],
    )


def demonstrate(options: KindOptions, out: Path) -> None:
    """Sample scikit-learn's digits and write the report, as a user would with files of their own."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.round(digits.images[:DEMO_STORED] * (255 / 16)).astype(np.uint8)
    source, new, page = out / "digits.npz", out / "new", out / "report.html"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=pixels, labels=digits.target[:DEMO_STORED].astype(str))
    write_whole(source, buffer.getvalue())
    say(f"stochattn sample {source} -n {DEMO_NEW} --replace -o {new}")
    request = Request.of(options, source, Choices())
    require_writable(str(new), source, format_of(request.kind, str(new)), replace=True)
    synth = request.synthesizer()
    asked = Asked()  # the defaults
    summary = write_samples(synth, DEMO_NEW, 0, str(new), source=str(source), asked=asked, replace_folder=True)
    say(summary_text(summary, synth.kind, synth.describe().summary))
    say(f"stochattn report {source} {new} -o {page}")
    write_report(ReportRequest(options, source, new, page, None, None, Choices()))
    say(f"Open {page} in a browser; the new examples are in {new}.")


def _require_page(path: Path, source: Path, samples: Path | None) -> None:
    """InputError, before any work, if the page cannot be written or would replace what the report is about."""
    if path.is_dir():
        raise InputError(f"-o {path} is a folder: name a file in it.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o {path} must end in .html, because the report is an HTML page.")
    if path.resolve() in {place.resolve() for place in (source, samples) if place is not None}:
        raise InputError(f"-o {path} is what the report is about: name another file.")
    try:
        probe(path)
    except OSError as error:
        raise InputError(f"-o {path} cannot be written ({error.strerror}): name another place.") from None


def _known(samples: Path, source: Path) -> Summary | None:
    """The summary beside samples, if it is of them and of this source; a note says why it is not used."""
    if not samples.exists():
        raise InputError(f"{samples} does not exist: name a file that `stochattn sample` wrote.")
    summary = read_summary(samples)
    if summary is None:
        if sidecar(samples).exists():
            say(f"note: {sidecar(samples)} is not a summary of {samples} as it is now, and is not used.")
        return None
    if not summary.recorded:
        say(f"note: {samples} was written by a Python program: its settings are not known.")
        return None
    if Path(summary.source).name != source.name:
        say(f"note: {samples} was made from {summary.source}, not from {source}: its settings are not used.")
        return None
    return summary
