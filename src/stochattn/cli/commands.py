"""The commands: sample, inspect, report, demo. Wiring only."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import outputs
from .._version import __version__
from ..data.images.writers import ON_A_SHEET
from ..data.legacy import Codec, InputError
from ..paths import course_of
from ..pipeline import plan
from . import options, reporting
from .options import codec_of, kind_of, reads_input
from .telling import WRONG_USE, one_line_errors, say, tell_inspection, told, working

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="New examples from a handful of stored ones, without training: proteins, pictures, tables, returns.",
)
Json = Annotated[bool, typer.Option("--json", help="Print the summary as json on standard output.")]
Out = Annotated[
    str,
    typer.Option(
        "-o", "--out", help="File or folder; its ending says the format. - is standard output.", metavar="OUT"
    ),
]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """New examples from a handful of stored ones, without training: proteins, pictures, tables, returns."""
    if show:
        print(f"stochattn {__version__}")
        raise typer.Exit


@app.command(
    epilog="""
Examples:

    stochattn sample family.sto -n 200 --seed 1 -o new.fasta

    stochattn sample faces/ -n 100 --keep anna -o new-faces/

    stochattn sample patients.csv -n 500 --fix age=40 -o synthetic.csv

    stochattn sample prices.csv -n 1000 -o scenarios.csv
"""
)
@reads_input
def sample(
    input: options.Input,
    out: Out,
    n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 100,
    novelty: options.Novelty = None,
    beta: options.Beta = None,
    rule: options.Rule = None,
    sampler: options.Sampler = None,
    target: options.Target = None,
    seed: options.Seed = 0,
    keep: options.Keep = None,
    weight: options.Weight = None,
    fix: options.Fix = None,
    format: Annotated[
        str | None, typer.Option(help="Output format. [by the ending of OUT]", show_default=False)
    ] = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="Bit score and E-value of each sequence, by a profile HMM of the stored ones.",
            rich_help_panel=options.PROTEINS,
        ),
    ] = False,
    hmm: Annotated[
        Path | None,
        typer.Option(help="Score by this profile instead.", rich_help_panel=options.PROTEINS, show_default=False),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Length of a path, of windows strung together by their volatility. [one window]",
            rich_help_panel=options.RETURNS,
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        bool | None,
        typer.Option(
            "--link/--no-link",
            help="Carry volatility over from window to window. [link]",
            rich_help_panel=options.RETURNS,
            show_default=False,
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Algorithm 3 with --mode projection: fixed beta, FIRST:LAST, or regimes learned from the history.",
            rich_help_panel=options.RETURNS,
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Insist on bounded memory: refuse formats that are collected before they are written."
        ),
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a folder that is not empty.")] = False,
    as_json: Json = False,
    reading: dict[str, Any] = {},  # noqa: B006
) -> None:
    """Draw new examples of the same kind, and write them in the same format."""
    with one_line_errors():
        if as_json and out == outputs.STANDARD_OUTPUT:
            raise InputError("--json and -o - both want standard output: write the examples to a file.")
        if schedule is not None:
            reading = {"mode": "projection", **reading}  # the sampler of sequences is the paper's
        asked = _given(locals(), "novelty beta rule keep weight fix days link schedule score hmm target reading")
        kind = kind_of(input, reading)
        chosen = outputs.format_of(kind, out, format)
        if stream and chosen in kind.collected:
            raise InputError(f"--stream cannot write {chosen}, which is collected first: choose another format.")
        if chosen == "sheet" and n > ON_A_SHEET:
            raise InputError(f"-o {out} is one contact sheet of at most {ON_A_SHEET}: lower -n, or name a folder.")
        outputs.require_writable(out, input, kind.formats[chosen] == ("",), replace)
        with working(f"reading {input}"):
            codec = codec_of(input, reading)
        if score or hmm:
            codec = _scored(codec, n, hmm)
        with working("setting up the sampler"):
            made = plan(
                codec,
                beta=beta,
                novelty=novelty,
                rule=rule,
                sampler=sampler or "exact",
                keep=keep or (),
                weight=weight or (),
                fix=fix or (),
                target=options.target_of(target, _given(locals(), "novelty beta rule sampler"), reading),
            )
        course = course_of(made, days, link is not False, schedule)
        if link is not None and course is None:
            raise InputError("--link and --no-link are for paths of several windows: give --days too.")
        facts = outputs.write(made, n, seed, out, chosen, str(input), asked, course)
        if as_json:
            print(outputs.as_json(facts))
        say(told(facts, novelty))


@app.command(
    epilog="""
Examples:

    stochattn inspect family.sto

    stochattn inspect patients.csv --png entropy.png
"""
)
@reads_input
def inspect(
    input: options.Input,
    png: Annotated[Path | None, typer.Option(help="Draw the entropy curve there.", show_default=False)] = None,
    as_json: Json = False,
    reading: dict[str, Any] = {},  # noqa: B006
) -> None:
    """Say what is stored, where attention turns from diffuse to sharp, and which beta each rule picks."""
    from ..evaluation import inspection

    with one_line_errors():
        if png is not None and png.suffix.lower() != ".png":
            raise InputError(f"--png {png} must end in .png.")
        with working(f"looking at {input}"):
            found = inspection.inspect(codec_of(input, reading))
        if png is not None:
            inspection.draw(found, png)
        if as_json:
            print(outputs.as_json(found.facts()))
            return
        tell_inspection(found, str(input))


@app.command(
    epilog="""
Examples:

    stochattn report family.sto new.fasta

    stochattn report patients.csv --novelty 0.2 -o report.html
"""
)
@reads_input
def report(
    input: options.Input,
    samples: Annotated[
        Path | None, typer.Argument(help="New examples to judge; without them some are drawn.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The HTML file. [beside SAMPLES, or beside INPUT]", show_default=False),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", min=2, help="How many to draw, without SAMPLES. [500]", show_default=False)
    ] = None,
    novelty: options.Novelty = None,
    beta: options.Beta = None,
    rule: options.Rule = None,
    target: options.Target = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of what is drawn. [0]", show_default=False)] = None,
    reading: dict[str, Any] = {},  # noqa: B006
) -> None:
    """Write one HTML page that shows new examples beside the stored ones, and tells whether to trust them."""
    with one_line_errors():
        how = _given(locals(), "novelty beta rule")
        if samples is None or target is not None:
            how["target"] = options.target_of(target, how, reading)
        path = reporting.write(input, samples, out, n, seed, how, reading)
        say(f"{path}: open it in a browser.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for what it makes.")] = Path("out/demo"),
) -> None:
    """Do the main job on data that comes along: new handwritten digits from 300 stored ones, and their report."""
    with one_line_errors():
        reporting.demonstrate(out)


def _scored(codec: Codec, n: int, hmm: Path | None) -> Codec:
    from ..data.proteins import ProteinCodec

    if not isinstance(codec, ProteinCodec):
        raise InputError(f"--score and --hmm are for proteins, and this is read as {codec.kind}: leave them out.")
    return codec.scored(n, hmm)


def _given(values: dict[str, Any], names: str) -> dict[str, Any]:
    """Those of the named options that were given."""
    chosen = {name: values[name] for name in names.split()}
    return {name: str(x) if isinstance(x, Path) else x for name, x in chosen.items() if x not in (None, [], {}, False)
            or (name == "link" and x is False)}  # fmt: skip


def main() -> None:
    """The command line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler's stop is like Ctrl-C
    try:
        code = app(prog_name="stochattn", standalone_mode=False)
    except Exception as error:  # wrong use that typer itself finds: one line, like every other
        if not hasattr(error, "format_message"):
            raise
        about = getattr(getattr(error, "ctx", None), "command_path", "stochattn")
        said = " ".join(error.format_message().split())
        if said:
            say(f"error: {said} ({about} --help tells more.)")
        code = WRONG_USE
    raise SystemExit(code if isinstance(code, int) else 0)
