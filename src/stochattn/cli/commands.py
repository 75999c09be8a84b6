"""The commands sample, inspect, report and demo, which connect other packages.

`Request` makes a synthesizer of the options of a command; `select` finds stored items by a string.
"""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from .._backend.files import recover, write_atomically
from .._backend.parallel import check_jobs
from .._backend.state import Plain
from ..kinds.options import AUTO, InputError, listed, option_fields, rename_former
from ..kinds.registry import kind_for, parts_in, read_labels, read_new
from ..kinds.summary import Asked, RunSummary, as_json, checksum, read_summary, sidecar
from .messages import (
    format_summary,
    label_reading,
    one_line_errors,
    print_inspection,
    print_json,
    print_to_stderr,
    working,
)
from .options import KindOptions

if TYPE_CHECKING:
    from .._backend.arrays import Array
    from ..kinds.codec import Codec
    from ..kinds.kind import AnyKind
    from ..synthesizer.synthesizer import Synthesizer


@dataclass(frozen=True)
class Request:
    """The synthesizer that a user requests, before its input is read."""

    options: KindOptions
    source: Path
    kind: AnyKind
    generator: str
    asked: Asked
    is_recognized: bool = False  # whether the kind is that of the source, and was not named
    trial: bool = True  # of the generators, if none is named

    @classmethod
    def of(
        cls,
        options: KindOptions,
        source: Path,
        arguments: Mapping[str, Plain],
        *,
        kind: str | None = None,
        default_kind: str | None = None,
        generator: str | None = None,
        trial: bool | None = None,
        **selections: Sequence[str] | None,
    ) -> Request:
        """Recognize the kind of data unless it is named, and check the options against it.

        arguments:  options that kinds of data declare, by parameter
        selections: conditions, subset and weight, as in `Asked`
        """
        kind_name = default_kind if kind is None else kind
        source_kind = kind_for(source, kind_name)
        values = options.select(source_kind, arguments, source)
        asked = Asked(values, **{name: tuple(strings or ()) for name, strings in selections.items()})
        has_trial = trial is not False and generator in (None, AUTO)
        name = AUTO if generator is None else generator
        return cls(options, source, source_kind, name, asked, kind_name is None, has_trial)

    def synthesizer(self, n_jobs: int | None = None) -> Synthesizer:
        """Read the input, and apply the conditions, the subset and the weights; n_jobs as in `fit`."""
        from ..synthesizer.synthesizer import fit_kind

        options = self.options.convert(self.kind, self.asked.options)
        synth = fit_kind(self.kind, self.source, self.is_recognized, self.generator, self.trial, n_jobs, options)
        kind, codec = synth.kind, synth.codec
        if self.asked.subset:
            masks = [select(kind, codec, selection) for selection in self.asked.subset]
            synth = synth.subset(np.logical_or.reduce(masks))
        for selection in self.asked.weight:
            synth = synth.weight(*parse_weight(kind, codec, selection))
        if self.asked.conditions:
            synth = synth.condition(kind.parse_condition(codec, self.asked.conditions))
        return synth

    def words(self) -> list[str]:
        """Return the options to type for the same synthesizer."""
        is_recognized = self.is_recognized or kind_for(self.source).name == self.kind.name
        words = [] if is_recognized else ["--kind", self.kind.name]
        if self.generator not in (AUTO, next(iter(self.kind.generators))):
            words += ["--generator", self.generator]
        elif not self.trial:
            words += ["--no-trial"]
        words += self.options.words(self.kind, self.asked.options)
        flags = {"--subset": self.asked.subset, "--weight": self.asked.weight, "--condition": self.asked.conditions}
        return words + [word for flag, strings in flags.items() for string in strings for word in (flag, string)]


def select(kind: AnyKind, codec: Codec, selection: str, option: str = "--subset") -> Array:
    """Return the stored items that match a selection: (K,) booleans, at least one of them true.

    A selection is a file of ids (one per line), NAME=VALUE if the kind of data has named values, the name of a class,
    an id, or a regular expression that matches a part of an id, in this order.
    """
    mask = _match(kind, codec, selection, option)
    if not mask.any():
        classes = sorted(set(codec.labels or ()))
        choices = f"The classes are {listed(classes, 6)}." if classes else f"Ids: {listed(codec.ids, 6)}."
        raise InputError(f"{option} {selection!r} matches none of the {codec.K} stored {kind.items}. {choices}")
    return mask


def parse_weight(kind: AnyKind, codec: Codec, weight: str) -> tuple[float, Array]:
    """Split SELECTION:RATIO into the ratio and the mask (K,) of the selected items."""
    selection, _, ratio = weight.rpartition(":")
    try:
        value = float(ratio)
    except ValueError:
        value = math.nan
    if not selection or not 0 < value < math.inf:
        raise InputError(f"--weight {weight!r} must be a selection and a positive ratio, such as 'setosa:5'.")
    return value, select(kind, codec, selection, "--weight")


def _match(kind: AnyKind, codec: Codec, selection: str, option: str) -> Array:
    if os.path.isfile(selection):
        return _match_ids(kind, codec, Path(selection), option)
    name, equals, value = selection.partition("=")
    mask = kind.select(codec, name, value) if equals else None
    if mask is not None:
        return np.asarray(mask, dtype=bool)
    parts = [part for part, _ in kind.display.column_types(codec)]
    if equals and parts:
        raise InputError(f"{option} {selection!r}: there is no {kind.part} {name!r}; there are {listed(parts, 6)}.")
    if codec.labels is not None and selection in codec.labels:
        return np.array(codec.labels) == selection
    if selection in codec.ids:  # an exact id takes precedence over longer ids that contain it
        return np.array(codec.ids) == selection
    try:
        pattern = re.compile(selection)
    except re.error as error:
        raise InputError(
            f"{option} {selection!r} is not a regular expression ({error}): write one that matches ids."
        ) from None
    return np.array([pattern.search(identifier) is not None for identifier in codec.ids])


def _match_ids(kind: AnyKind, codec: Codec, path: Path, option: str) -> Array:
    try:
        ids = {line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{option} {path} cannot be read as a list of ids: write one id per line, in UTF-8.") from None
    unknown = sorted(ids - set(codec.ids))
    if unknown:
        n_lines = f"{len(unknown)} such lines"
        raise InputError(f"{option} {path}: {unknown[0]!r} is not among the stored {kind.items} ({n_lines}).")
    return np.array([identifier in ids for identifier in codec.ids])


Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON to standard output.")]
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
REPLACE = "Replace a folder that an earlier run of this command wrote, or a file that it did not write."
REPLACE_FILE = "Replace a file that this command did not write."
SCHEDULER = "Let the workers of this Dask scheduler, such as tcp://host:8786, write OUT as a folder of parts."
STREAM = "Require bounded memory: refuse formats that must hold all examples at once."
SAMPLES = "New examples to report on; by default, examples are drawn."
PAGE = "The HTML file. [beside SAMPLES, or beside INPUT]"
QUICK = "Validate on fewer draws, with settings that are not chosen again: seconds instead of minutes."
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
    check_jobs(jobs)
    if scheduler is not None and jobs is not None:
        raise InputError("--jobs and --scheduler exclude each other: the workers of the scheduler draw the examples.")
    request = ask()
    in_parts = scheduler is not None
    file_format = output_format(request.kind, n, out, format, source=input, replace=replace, in_parts=in_parts)
    if stream and file_format.collected:
        raise InputError(f"--stream cannot write {file_format.name}, which holds all examples: choose another format.")
    with working(label_reading(input)):
        synth = request.synthesizer(jobs)
    with working("fitting the generator"):
        description = synth.describe()
    summary = write_samples(
        *(synth, n, seed, out, file_format.name),
        asked=request.asked,
        replace=replace,
        n_jobs=jobs,
        scheduler=scheduler,
    )
    if json:
        print_json(summary.to_json())
    print_to_stderr(*format_summary(summary, synth.kind, description, request.options.reword))


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
    with working(label_reading(input)):
        facts = inspection.inspect(request.synthesizer())
    if png is not None:
        inspection.plot_entropy(facts, png)
    if json:
        print_json(as_json(facts.as_dict()))
    else:
        print_inspection(facts, str(input), request.options.reword)


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
    json: Annotated[bool, typer.Option("--json", help="Print verdict and figures as JSON to standard output.")] = False,
) -> None:
    """Write an HTML page that shows new examples beside the stored ones and says how far to trust them."""
    from ..evaluation import as_evaluated
    from ..report import make_report

    page = out or (samples or input).with_suffix(".html")
    check_jobs(jobs)
    _require_page(page, input, samples, replace)
    if samples is not None and n is not None:
        raise InputError("-n is for reports that draw their own examples: leave out -n, or leave out SAMPLES.")
    summary = None if samples is None else _find_summary(samples, input)
    request = ask() if summary is None else _restore_request(ask(default_kind=summary.kind), summary, samples, seed)
    with working(label_reading(input)):
        synth = request.synthesizer(jobs)
    if summary is not None:  # the recorded choices of rules are used again
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
    if samples is not None and summary is None:  # it is not known how they were made
        words = ["report", input, samples]
    result = make_report(
        synth,
        items,
        source=str(input),
        samples=None if samples is None else str(samples),
        summary=summary,
        seed=seed,
        command=shlex.join(["stochattn", *map(str, words)]),
        quick=quick,
        reword=request.options.reword,
        n_jobs=jobs,
        labels=labels,
    )
    write_atomically(page, result.page, partial(_require_page, page, input, samples, replace))
    if json:
        print_json(as_json(result.as_dict()))
    print_to_stderr(f"{result.verdict.headline}. {result.verdict.advice}")
    print_to_stderr(f"{page}: open it in a browser.")


@one_line_errors()
def demo(out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the results.")] = Path("out/demo")) -> None:
    """Generate new handwritten digits from 300 stored ones, and write their report."""
    from sklearn.datasets import load_digits

    digits, buffer = load_digits(), io.BytesIO()
    pixels = np.round(digits.images[:DEMO_STORED] * (255 / 16)).astype(np.uint8)
    np.savez_compressed(buffer, images=pixels, labels=digits.target[:DEMO_STORED].astype(str))
    source, new, page = out / "digits.npz", out / "new", out / "report.html"
    foreign = {entry.name for entry in out.iterdir()} - {source.name, new.name, page.name} if out.is_dir() else set()
    if foreign or (source.exists() and source.read_bytes() != buffer.getvalue()):
        name = min(foreign, default=source.name)
        raise InputError(f"-o {out} holds {name!r}, which the demo did not write: name another folder.")
    created = [folder for folder in (out, *out.parents) if not folder.exists()]
    out.mkdir(parents=True, exist_ok=True)
    try:
        write_atomically(source, buffer.getvalue())
        ask = partial(Request.of, KindOptions(()), source, {})
        print_to_stderr(f"stochattn sample {source} -n {DEMO_NEW} --replace -o {new}")
        sample(source, ask, str(new), DEMO_NEW, replace=True)
        print_to_stderr(f"stochattn report {source} {new} -o {page}")
        report(source, ask, new, page)
    except BaseException:
        if created:
            shutil.rmtree(created[-1], ignore_errors=True)
        raise
    print_to_stderr(f"The new examples are in {new}.")


def _restore_request(request: Request, summary: RunSummary, samples: Path | None, seed: int | None) -> Request:
    """Return the request that the summary records; the user may only add options of reading."""
    asked, reading = request.asked, option_fields(request.kind.codec_options)
    drawing = {name: value for name, value in asked.options.items() if name not in reading}
    conflicts = {
        "--kind": request.kind.name != summary.kind,
        "--generator": request.generator != AUTO,
        "--no-trial": request.generator == AUTO and not request.trial,
        "--condition": asked.conditions,
        "--subset": asked.subset,
        "--weight": asked.weight,
        **{word: word.startswith("--") for word in request.options.words(request.kind, drawing)},
        "--seed": seed is not None,
    }
    flags = ", ".join(flag for flag, is_conflict in conflicts.items() if is_conflict)
    if flags:
        raise InputError(f"{flags}: the summary beside {samples} records how it was made. Leave this out.")
    trial_options = {} if summary.trial is None else summary.trial.options
    options = {**trial_options, **rename_former(summary.options, reading), **asked.options}
    recorded = replace_fields(summary, options=options)
    return replace_fields(request, generator=summary.generator, asked=recorded, trial=summary.trial is not None)


def _require_page(page: Path, source: Path, samples: Path | None, replace: bool) -> None:
    """Raise InputError, before any work, if the page cannot be written or would replace a file that is not a report."""
    from ..report import require_page

    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o {page} must end in .html, because the report is an HTML page.")
    if page.resolve() in {path.resolve() for path in (source, samples) if path is not None}:
        raise InputError(f"-o {page} is an input of the report: name another file.")
    require_page(f"-o {page}", page, replace=replace)


def _find_summary(samples: Path, source: Path) -> RunSummary | None:
    """Return the summary beside samples if it is about them and this source; a note says why it is not used."""
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
        reason = f"was made from other data than {source} holds now (from {summary.source})"
        print_to_stderr(f"note: {samples} {reason}: its settings are not used.")
    else:
        return summary
    return None
