"""The commands sample, inspect, report and demo. They connect other parts and do nothing themselves."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from .._backend.files import write_whole
from ..data.options import InputError
from ..data.summary import as_json as as_json_text
from ..output import STANDARD_OUTPUT, output_format, write_samples
from .kind_options import KindOptions
from .messages import one_line_errors, print_inspection, say, summary_text, working
from .reporting import write_report
from .request import Request

Json = Annotated[bool, typer.Option("--json", help="Print the summary as json to standard output.")]
EXAMPLES = {
    "sample": (
        "family.sto -n 200 --seed 1 -o new.fasta",
        "faces/ -n 100 --subset anna -o new-faces/",
        "patients.csv -n 500 --condition age=40 -o synthetic.csv",
        "patients.csv -n 500 --novelty 0.2 -o synthetic.csv",
        "prices.csv -n 1000 -o scenarios.csv",
    ),
    "inspect": ("family.sto", "patients.csv --png entropy.png"),
    "report": ("family.sto new.fasta", "patients.csv --novelty 0.2 -o report.html"),
}
OUT = "Output file or folder; the file name extension chooses the format. - is standard output."
SEED = "Random seed. The same input, options, seed and version give the same bytes."
REPLACE = "Replace a folder that an earlier run of this command wrote."
STREAM = "Require bounded memory: refuse formats that must hold all examples at once."
SAMPLES = "New examples to report on; without them some are drawn."
PAGE = "The HTML file. [beside SAMPLES, or beside INPUT]"
N_DRAWN = "Number of examples to draw, without SAMPLES. [500]"
DEMO_STORED, DEMO_NEW = 300, 100


def sample(
    input: Path,
    ask: Callable[..., Request],
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help=OUT, show_default=False)],
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Number of new examples.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help=SEED)] = 0,
    format: Annotated[str | None, typer.Option(help="Output format. [by the extension of OUT]")] = None,
    stream: Annotated[bool, typer.Option("--stream", help=STREAM)] = False,
    replace: Annotated[bool, typer.Option("--replace", help=REPLACE)] = False,
    as_json: Json = False,
) -> None:
    """Generate new examples like the stored ones, and write them in a format of the same kind."""
    if as_json and out == STANDARD_OUTPUT:
        raise InputError("--json and -o - both use standard output: write the examples to a file.")
    request = ask()
    chosen = output_format(request.kind, n, out, format, source=input, replace=replace)
    if stream and chosen.collected:
        raise InputError(f"--stream cannot write {chosen.name}, which holds all examples: choose another format.")
    with working(f"reading {input}"):
        synth = request.synthesizer()
    with working("fitting the generator"):
        about = synth.describe().summary
    summary = write_samples(synth, n, seed, out, chosen.name, asked=request.asked, replace=replace)
    if as_json:
        print(summary.to_json())
    say(summary_text(summary, synth.kind, about))


def inspect(
    input: Path,
    ask: Callable[..., Request],
    png: Annotated[Path | None, typer.Option(help="Write a plot of the entropy curve to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Show the stored examples, where attention turns from diffuse to sharp, and which beta each rule chooses."""
    from ..evaluation import inspection

    if png is not None and png.suffix.lower() != ".png":
        raise InputError(f"--png {png} must end in .png.")
    with working(f"reading {input}"):
        found = inspection.inspect(ask().synthesizer())
    if png is not None:
        inspection.plot_entropy(found, png)
    if as_json:
        print(as_json_text(found.as_dict()))
    else:
        print_inspection(found, str(input))


def report(
    input: Path,
    ask: Callable[..., Request],
    samples: Annotated[Path | None, typer.Argument(metavar="[SAMPLES]", help=SAMPLES)] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help=PAGE)] = None,
    n: Annotated[int | None, typer.Option("-n", min=2, metavar="N", help=N_DRAWN)] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed of these draws. [0]")] = None,
) -> None:
    """Write an HTML page that shows new examples beside the stored ones and says how far to trust them."""
    page = out or (samples or input).with_suffix(".html")
    write_report(ask, input, samples, page, n, seed)
    say(f"{page}: open it in a browser.")


@one_line_errors()
def demo(out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the results.")] = Path("out/demo")) -> None:
    """Generate new handwritten digits from 300 stored ones, and write their report."""
    from sklearn.datasets import load_digits

    digits, buffer = load_digits(), io.BytesIO()
    pixels = np.round(digits.images[:DEMO_STORED] * (255 / 16)).astype(np.uint8)
    np.savez_compressed(buffer, images=pixels, labels=digits.target[:DEMO_STORED].astype(str))
    source, new, page = out / "digits.npz", out / "new", out / "report.html"
    write_whole(source, buffer.getvalue())
    ask = partial(Request.of, KindOptions(()), source, {})
    say(f"stochattn sample {source} -n {DEMO_NEW} --replace -o {new}")
    sample(source, ask, str(new), DEMO_NEW, replace=True)
    say(f"stochattn report {source} {new} -o {page}")
    report(source, ask, new, page)
    say(f"The new examples are in {new}.")
