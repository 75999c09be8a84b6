"""The commands sample, inspect, report and demo. They connect other parts and do nothing themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..data.options import InputError
from ..data.output import STANDARD_OUTPUT, check_format, format_of, require_writable, write_samples
from ..data.summary import as_json as as_json_text
from . import reporting
from .kind_options import KindOptions
from .messages import one_line_errors, print_inspection, say, summary_text, working
from .request import Choices, Request

Json = Annotated[bool, typer.Option("--json", help="Print the summary as json to standard output.")]
SAMPLE_EXAMPLES = """
Examples:

    stochattn sample family.sto -n 200 --seed 1 -o new.fasta

    stochattn sample faces/ -n 100 --subset anna -o new-faces/

    stochattn sample patients.csv -n 500 --condition age=40 -o synthetic.csv

    stochattn sample patients.csv -n 500 --novelty 0.2 -o synthetic.csv

    stochattn sample prices.csv -n 1000 -o scenarios.csv
"""
INSPECT_EXAMPLES = """
Examples:

    stochattn inspect family.sto

    stochattn inspect patients.csv --png entropy.png
"""
REPORT_EXAMPLES = """
Examples:

    stochattn report family.sto new.fasta

    stochattn report patients.csv --novelty 0.2 -o report.html
"""


def sample(
    input: Path,
    out: Annotated[
        str,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            help="Output file or folder; the file name extension chooses the format. - is standard output.",
            show_default=False,
        ),
    ],
    options: KindOptions,
    choices: Choices,
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Number of new examples.")] = 100,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed. The same input, options, seed and version give the same bytes.")
    ] = 0,
    format: Annotated[
        str | None, typer.Option(help="Output format. [by the extension of OUT]", show_default=False)
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Require bounded memory: refuse formats that must hold all examples at once."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a folder that an earlier run of this command wrote.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Generate new examples like the stored ones, and write them in a format of the same kind."""
    with one_line_errors():
        if as_json and out == STANDARD_OUTPUT:
            raise InputError("--json and -o - both use standard output: write the examples to a file.")
        request = Request.of(options, input, choices)
        chosen = format_of(request.kind, out, format)
        if stream and chosen.collected:
            raise InputError(f"--stream cannot write {chosen.name}, which holds all examples: choose another format.")
        check_format(chosen, n, out)
        require_writable(out, input, chosen, replace)
        with working(f"reading {input}"):
            synth = request.synthesizer()
        with working("fitting the generator"):
            about = synth.describe().summary
        summary = write_samples(
            synth, n, seed, out, chosen.name, source=str(input), asked=request.asked, replace_folder=replace
        )
        if as_json:
            print(summary.to_json())
        say(summary_text(summary, synth.kind, about))


def inspect(
    input: Path,
    options: KindOptions,
    choices: Choices,
    png: Annotated[
        Path | None, typer.Option(help="Write a plot of the entropy curve to this file.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the stored examples, where attention turns from diffuse to sharp, and which beta each rule chooses."""
    from ..evaluation import inspection

    with one_line_errors():
        if png is not None and png.suffix.lower() != ".png":
            raise InputError(f"--png {png} must end in .png.")
        with working(f"reading {input}"):
            found = inspection.inspect(Request.of(options, input, choices).synthesizer())
        if png is not None:
            inspection.plot_entropy(found, png)
        if as_json:
            print(as_json_text(found.as_dict()))
        else:
            print_inspection(found, str(input))


def report(
    input: Path,
    options: KindOptions,
    choices: Choices,
    samples: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SAMPLES]", help="New examples to report on; without them some are drawn.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The HTML file. [beside SAMPLES, or beside INPUT]", show_default=False),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("-n", min=2, metavar="N", help="Number of examples to draw, without SAMPLES. [500]"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed of these draws. [0]", show_default=False)] = None,
) -> None:
    """Write an HTML page that shows new examples beside the stored ones and says how far to trust them."""
    with one_line_errors():
        asked = reporting.ReportRequest(options, input, samples, out, n, seed, choices)
        say(f"{reporting.write_report(asked)}: open it in a browser.")
