"""The commands sample, inspect, report and demo. They connect other parts and do nothing themselves.

From the options of a command to a synthesizer, and from texts to the stored items that they select.
"""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from .._backend.files import recover, write_atomically
from .._backend.state import Plain
from ..kinds.description import AUTO
from ..kinds.options import InputError, listed, option_fields
from ..kinds.registry import kind_for, parts_in, read_labels, read_new
from ..kinds.summary import Asked, RunSummary, as_json, checksum, read_summary, sidecar
from .messages import one_line_errors, print_inspection, print_json, print_to_stderr, summary_lines, working
from .options import KindOptions, Wording

if TYPE_CHECKING:
    from .._backend.arrays import Array
    from ..kinds.codec import Codec
    from ..kinds.kind import AnyKind
    from ..synthesizer.synthesizer import Synthesizer


@dataclass(frozen=True)
class Request:
    """The synthesizer that a user asks for, before its input is read."""

    options: KindOptions
    source: Path
    kind: AnyKind
    generator: str
    asked: Asked
    recognised: bool = False
    trial: bool = True  # of the generators, where none is named

    @classmethod
    def of(
        cls,
        options: KindOptions,
        source: Path,
        given: Mapping[str, Plain],
        *,
        kind: str | None = None,
        default_kind: str | None = None,
        generator: str | None = None,
        trial: bool | None = None,
        **texts: Sequence[str] | None,
    ) -> Request:
        """Recognise the kind of data unless it is named, and check the options against it.

        given: options that kinds of data declare, by parameter; texts: conditions, subset and weight, as in `Asked`
        """
        named = default_kind if kind is None else kind
        found = kind_for(source, named)
        chosen = options.chosen(found, given, source)
        asked = Asked(chosen, **{name: tuple(several or ()) for name, several in texts.items()})
        name, tries = AUTO if generator is None else generator, trial is not False and generator in (None, AUTO)
        return cls(options, source, found, name, asked, recognised=named is None, trial=tries)

    def synthesizer(self, n_jobs: int | None = None) -> Synthesizer:
        """Read the input, and apply the conditions, the subset and the weights; n_jobs as in `fit`."""
        from ..synthesizer.synthesizer import fit_kind

        values = self.options.values(self.kind, self.asked.options)
        synth = fit_kind(self.kind, self.source, self.recognised, self.generator, self.trial, n_jobs, values)
        kind, codec = synth.kind, synth.codec
        if self.asked.subset:
            synth = synth.subset(np.logical_or.reduce([select(kind, codec, text) for text in self.asked.subset]))
        for text in self.asked.weight:
            synth = synth.weight(*weighting(kind, codec, text))
        if self.asked.conditions:
            synth = synth.condition(kind.parse_condition(codec, self.asked.conditions))
        return synth

    def words(self) -> list[str]:
        """The options to type for the same synthesizer."""
        is_recognized = self.recognised or kind_for(self.source).name == self.kind.name
        words = [] if is_recognized else ["--kind", self.kind.name]
        if self.generator not in (AUTO, next(iter(self.kind.generators))):
            words += ["--generator", self.generator]
        elif not self.trial:
            words += ["--no-trial"]
        words += self.options.words(self.kind, self.asked.options)
        texts = {"--subset": self.asked.subset, "--weight": self.asked.weight, "--condition": self.asked.conditions}
        return words + [word for flag, several in texts.items() for text in several for word in (flag, text)]


def select(kind: AnyKind, codec: Codec, text: str, option: str = "--subset") -> Array:
    """The stored items that a text selects: (K,) booleans, at least one of them true.

    A file of ids (one per line), NAME=VALUE where the kind of data has named values, the name of a class, an id, or a
    regular expression that matches a part of an id, in this order.
    """
    selected = _selected(kind, codec, text, option)
    if not selected.any():
        classes = sorted(set(codec.labels or ()))
        known = f"The classes are {listed(classes, 6)}." if classes else f"Ids: {listed(codec.ids, 6)}."
        raise InputError(f"{option} {text!r} matches none of the {codec.K} stored {kind.items}. {known}")
    return selected


def weighting(kind: AnyKind, codec: Codec, text: str) -> tuple[float, Array]:
    """SELECTION:RATIO as the ratio and the selected items (K,)."""
    selection, _, ratio = text.rpartition(":")
    try:
        value = float(ratio)
    except ValueError:
        value = math.nan
    if not selection or not 0 < value < math.inf:
        raise InputError(f"--weight {text!r} must be a selection and a positive ratio, such as 'setosa:5'.")
    return value, select(kind, codec, selection, "--weight")


def _selected(kind: AnyKind, codec: Codec, text: str, option: str) -> Array:
    if os.path.isfile(text):
        return _listed(kind, codec, Path(text), option)
    name, equals, value = text.partition("=")
    named = kind.select(codec, name, value) if equals else None
    if named is not None:
        return np.asarray(named, dtype=bool)
    parts = [part for part, _ in kind.display.column_types(codec)]
    if equals and parts:
        raise InputError(f"{option} {text!r}: there is no {kind.part} {name!r}; there are {listed(parts, 6)}.")
    if codec.labels is not None and text in codec.labels:
        return np.array(codec.labels) == text
    if text in codec.ids:  # an id as it is written wins over the longer ones that contain it
        return np.array(codec.ids) == text
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(
            f"{option} {text!r} is not a regular expression ({error}): write one that matches ids."
        ) from None
    return np.array([pattern.search(identifier) is not None for identifier in codec.ids])


def _listed(kind: AnyKind, codec: Codec, path: Path, option: str) -> Array:
    try:
        wanted = {line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{option} {path} cannot be read as a list of ids: write one id per line, in UTF-8.") from None
    unknown = sorted(wanted - set(codec.ids))
    if unknown:
        which = f"{unknown[0]!r} is not among the stored {kind.items}"
        raise InputError(f"{option} {path}: {which} ({len(unknown)} such lines).")
    return np.array([identifier in wanted for identifier in codec.ids])


Json = Annotated[bool, typer.Option("--json", help="Print the summary as json to standard output.")]
EXAMPLES = {
    "sample": (
        "family.sto -n 200 --seed 1 -o new.fasta",
        "faces/ -n 100 --subset anna -o new-faces/",
        "patients.csv -n 500 --condition age=40 -o synthetic.csv",
        "patients.csv -n 500 --condition '40<=age<60' -o synthetic.csv",
        "patients.csv -n 500 --novelty 0.2 -o synthetic.csv",
        "prices.csv -n 1000 -o scenarios.csv",
    ),
    "inspect": ("family.sto", "patients.csv --png entropy.png"),
    "report": ("family.sto new.fasta", "patients.csv --novelty 0.2 -o report.html"),
    "explore": ("family.sto", "patients.csv --generator hopfield --no-browser"),
}
OUT = "Output file or folder; the file name extension chooses the format. - is standard output."
SEED = "Random seed. The same input, options, seed and version give the same bytes."
REPLACE = "Replace a folder that an earlier run of this command wrote, or a file that none wrote."
REPLACE_FILE = "Replace a file that no earlier run of this command wrote."
SCHEDULER = "Let the workers of this Dask scheduler, such as tcp://host:8786, write OUT as a folder of parts."
STREAM = "Require bounded memory: refuse formats that must hold all examples at once."
SAMPLES = "New examples to report on; without them some are drawn."
PAGE = "The HTML file. [beside SAMPLES, or beside INPUT]"
QUICK = "Validate on fewer draws, with settings that are not chosen anew: some seconds instead of minutes."
JOBS = "Worker processes that share the work, with the same result: -1 for one per core. [1]"
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="N", help=JOBS)]
N_NEW = "Number of examples to draw, without SAMPLES. [500]"
N_DRAWN, DEMO_STORED, DEMO_NEW = 500, 300, 100


def sample(
    input: Path,
    ask: Callable[..., Request],
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help=OUT, show_default=False)],
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Number of new examples.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help=SEED)] = 0,
    format: Annotated[str | None, typer.Option(help="Output format. [by the extension of OUT]")] = None,
    stream: Annotated[bool, typer.Option("--stream", help=STREAM)] = False,
    replace: Annotated[bool, typer.Option("--replace", help=REPLACE)] = False,
    jobs: Jobs = None,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help=SCHEDULER)] = None,
    json: Json = False,
) -> None:
    """Generate new examples like the stored ones, and write them in a format of the same kind."""
    from ..synthesizer.writing import STANDARD_OUTPUT, output_format, write_samples

    if json and out == STANDARD_OUTPUT:
        raise InputError("--json and -o - both use standard output: write the examples to a file.")
    jobs, parts = _checked_jobs(jobs), scheduler is not None
    if parts and jobs is not None:
        raise InputError("--jobs and --scheduler exclude each other: the workers of the scheduler draw the examples.")
    request = ask()
    chosen = output_format(request.kind, n, out, format, source=input, replace=replace, in_parts=parts)
    if stream and chosen.collected:
        raise InputError(f"--stream cannot write {chosen.name}, which holds all examples: choose another format.")
    with working(f"reading {input}"):
        synth = request.synthesizer(jobs)
    with working("fitting the generator"):
        about = synth.describe()
    write = partial(write_samples, asked=request.asked, replace=replace, n_jobs=jobs, scheduler=scheduler)
    summary = write(synth, n, seed, out, chosen.name)
    if json:
        print_json(summary.to_json())
    print_to_stderr(*summary_lines(summary, synth.kind, about, Wording.of(request.options).as_typed))


def inspect(
    input: Path,
    ask: Callable[..., Request],
    png: Annotated[Path | None, typer.Option(help="Write a plot of the entropy curve to this file.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help=REPLACE_FILE)] = False,
    json: Json = False,
) -> None:
    """Show the stored examples, where attention turns from diffuse to sharp, and which beta each rule chooses."""
    from ..evaluation import inspection

    if png is not None and png.suffix.lower() != ".png":
        raise InputError(f"--png {png} must end in .png.")
    if png is not None:
        inspection.require_plot(f"--png {png}", png, replace=replace)
    request = ask()
    with working(f"reading {input}"):
        found = inspection.inspect(request.synthesizer())
    if png is not None:
        inspection.plot_entropy(found, png)
    if json:
        print_json(as_json(found.as_dict()))
    else:
        print_inspection(found, str(input), Wording.of(request.options).as_typed)


def report(
    input: Path,
    ask: Callable[..., Request],
    samples: Annotated[Path | None, typer.Argument(metavar="[SAMPLES]", help=SAMPLES)] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help=PAGE)] = None,
    n: Annotated[int | None, typer.Option("-n", min=2, metavar="N", help=N_NEW)] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed of these draws. [0]")] = None,
    replace: Annotated[bool, typer.Option("--replace", help=REPLACE_FILE)] = False,
    quick: Annotated[bool, typer.Option("--quick", help=QUICK)] = False,
    jobs: Jobs = None,
    json: Annotated[bool, typer.Option("--json", help="Print verdict and figures as json to standard output.")] = False,
) -> None:
    """Write an HTML page that shows new examples beside the stored ones and says how far to trust them."""
    from ..evaluation import as_evaluated
    from ..report import make_report

    page, jobs = out or (samples or input).with_suffix(".html"), _checked_jobs(jobs)
    _require_page(page, input, samples, replace)
    if samples is not None and n is not None:
        raise InputError("-n is for reports that draw their own examples: leave out -n, or leave out SAMPLES.")
    summary = None if samples is None else _known(samples, input)
    request = ask() if summary is None else _as_recorded(ask(default_kind=summary.kind), summary, samples, seed)
    with working(f"reading {input}"):
        synth = request.synthesizer(jobs)
    if summary is not None:  # what a rule chose then is not searched again
        synth = synth.with_resolved(summary.resolved)
    seed = summary.seed if summary is not None else seed or 0
    labels = None if samples is None else read_labels(synth.kind, synth.codec, samples)
    if samples is None:
        with working("drawing"):
            items = as_evaluated(synth).sample_items(n or N_DRAWN, seed, jobs)
    else:
        items = read_new(synth.kind, synth.codec, samples)
    words = ["sample", input, "-n", len(items), *request.words(), "--seed", seed, "-o", samples or "OUT"]
    words += ["--replace"] if samples is not None and samples.is_dir() else []
    words += ["--scheduler", "ADDRESS"] if samples is not None and parts_in(samples) else []
    if samples is not None and summary is None:  # how they were made is not known
        words = ["report", input, samples]
    command = shlex.join(["stochattn", *map(str, words)])
    made = {"source": str(input), "samples": None if samples is None else str(samples), "command": command}
    worded = Wording.of(request.options).as_typed
    found = make_report(
        synth, items, summary=summary, seed=seed, quick=quick, worded=worded, n_jobs=jobs, labels=labels, **made
    )
    write_atomically(page, found.page, partial(_require_page, page, input, samples, replace))
    if json:
        print_json(as_json(found.as_dict()))
    print_to_stderr(f"{found.verdict.headline}. {found.verdict.advice}")
    print_to_stderr(f"{page}: open it in a browser.")


@one_line_errors()
def demo(out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the results.")] = Path("out/demo")) -> None:
    """Generate new handwritten digits from 300 stored ones, and write their report."""
    from sklearn.datasets import load_digits

    digits, buffer = load_digits(), io.BytesIO()
    pixels = np.round(digits.images[:DEMO_STORED] * (255 / 16)).astype(np.uint8)
    np.savez_compressed(buffer, images=pixels, labels=digits.target[:DEMO_STORED].astype(str))
    source, new, page = out / "digits.npz", out / "new", out / "report.html"
    others = {entry.name for entry in out.iterdir()} - {source.name, new.name, page.name} if out.is_dir() else set()
    if others or (source.exists() and source.read_bytes() != buffer.getvalue()):
        which = repr(min(others, default=source.name))
        raise InputError(f"-o {out} holds {which}, which the demo did not write: name another folder.")
    with _new_folder(out):
        write_atomically(source, buffer.getvalue())
        ask = partial(Request.of, KindOptions(()), source, {})
        print_to_stderr(f"stochattn sample {source} -n {DEMO_NEW} --replace -o {new}")
        sample(source, ask, str(new), DEMO_NEW, replace=True)
        print_to_stderr(f"stochattn report {source} {new} -o {page}")
        report(source, ask, new, page)
    print_to_stderr(f"The new examples are in {new}.")


@contextmanager
def _new_folder(path: Path) -> Iterator[None]:
    """Create a folder and those that it lies in; if the block fails, whatever was created is removed."""
    created = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if created:
            shutil.rmtree(created[-1], ignore_errors=True)
        raise


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs == 0:
        raise InputError("--jobs must be a number of worker processes, or -1 for one per core; got 0.")
    return jobs


def _as_recorded(request: Request, summary: RunSummary, samples: Path | None, seed: int | None) -> Request:
    """The request that the summary records; the user may add options of reading, and no others."""
    asked, reading = request.asked, option_fields(request.kind.codec_options)
    drawing = {name: value for name, value in asked.options.items() if name not in reading}
    given = {
        "--kind": request.kind.name != summary.kind,
        "--generator": request.generator != AUTO,
        "--no-trial": request.generator == AUTO and not request.trial,
        "--condition": asked.conditions,
        "--subset": asked.subset,
        "--weight": asked.weight,
        **{word: word.startswith("--") for word in request.options.words(request.kind, drawing)},
        "--seed": seed is not None,
    }
    contradicting = ", ".join(flag for flag, is_given in given.items() if is_given)
    if contradicting:
        raise InputError(f"{contradicting}: the summary beside {samples} records how it was made. Leave this out.")
    chosen = {} if summary.trial is None else summary.trial.options
    recorded = replaced(summary, options={**chosen, **summary.options, **asked.options})
    return replaced(request, generator=summary.generator, asked=recorded, trial=summary.trial is not None)


def _require_page(page: Path, source: Path, samples: Path | None, replace: bool) -> None:
    """InputError, before any work, if the page cannot be written or would replace other files than a report."""
    from ..report import require_page

    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o {page} must end in .html, because the report is an HTML page.")
    if page.resolve() in {place.resolve() for place in (source, samples) if place is not None}:
        raise InputError(f"-o {page} is what the report is about: name another file.")
    require_page(f"-o {page}", page, replace=replace)


def _known(samples: Path, source: Path) -> RunSummary | None:
    """The summary beside samples, if it is of them and of this source; a note says why it is not used."""
    recover(samples.resolve().parent)
    if not samples.exists():
        raise InputError(f"{samples} does not exist: name a file that `stochattn sample` wrote.")
    summary, beside = read_summary(samples), sidecar(samples)
    if summary is None:
        if beside.exists():
            print_to_stderr(f"note: {beside} is not a summary that this version can read, and is not used.")
    elif not summary.fits(samples):
        remedy = f"generate it again, or delete {beside} for a report on it as it is"
        raise InputError(f"{samples} is not what its summary {beside} was written for; one of them changed: {remedy}.")
    elif not summary.recorded:
        print_to_stderr(f"note: {samples} was written by a Python program: its settings are not known.")
    elif summary.source_sha256 is None or summary.source_sha256 != checksum(source):
        told = f"was made from other data than {source} holds now (from {summary.source})"
        print_to_stderr(f"note: {samples} {told}: its settings are not used.")
    else:
        return summary
    return None
