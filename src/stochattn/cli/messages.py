"""What commands print: results to standard output; summaries, notes and one-line errors to standard error."""

from __future__ import annotations

import codecs
import io
import json
import math
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from .._backend.checks import escape_unprintable
from .._backend.console import INTERRUPTED, MESSAGE, SHOWN, duration, is_interactive, show_waiting
from ..kinds.summary import RunSummary

if TYPE_CHECKING:
    from ..evaluation.inspection import Inspection
    from ..kinds.generator import Description
    from ..kinds.kind import AnyKind

FAILED, WRONG_USE = 1, 2
DEBUG = "STOCHATTN_DEBUG"
"""An environment variable. If it is set, failures show their traceback."""
MAX_COPIES = 0.05  # share of exact copies above which a summary says what to do about them
MAX_CLASSES = 10  # classes that a summary lists; the JSON output has all of them
MAX_COLUMNS = 100  # columns that `inspect` lists; it counts the rest, and the JSON output has all of them
N_BARS, BAR_WIDTH = 12, 30
TABLES = (".csv", ".tsv", ".txt")
BYTES_PER_SECOND, MIN_ESTIMATED = 2e6, 10.0
"""What one core reads and encodes of a delimited table (50 MB of a million rows: 25 s), and what needs an estimate."""
USES = {
    "natural": "draws are as far from the stored items as these are from each other: for generation",
    "inflection": "where attention turns sharp (Eq. 11)",
    "knee": "the rule of the published scripts",
    "leave_one_out": "the most likely beta for each item given the others",
}
"""The purpose of each rule for beta."""
_PLAIN = "stochattn.plain"
_ASCII = {"█": "#", "β": "beta", "−": "-", "–": "-", "×": "x", "·": ".", "±": "+-", "→": "->"}
_ASCII |= {"“": '"', "”": '"', "‘": "'", "’": "'"}
_ASCII |= {"…": "~"}  # rich ends a shortened table cell with it, and three dots would not fit
"""Replacements for characters that a terminal cannot show; letters lose their accents."""


def print_anywhere() -> None:
    """Replace each character that the terminal cannot show by a plain one from now on, instead of failing."""
    codecs.register_error(_PLAIN, _replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    plain = (unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() for letter in letters)
    return "".join(_ASCII.get(a) or b or "?" for a, b in zip(letters, plain, strict=True)), error.end


def print_json(text: str) -> None:
    """Print JSON to standard output; characters that a terminal must not or cannot show are escaped."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    print("".join(c if c == "\n" or escape_unprintable(c) == c else json.dumps(c)[1:-1] for c in text))


def print_to_stderr(*lines: str) -> None:
    """Print lines to standard error."""
    print(*map(escape_unprintable, lines), sep="\n", file=sys.stderr)


def _stop(line: str, code: int = FAILED) -> NoReturn:
    print_to_stderr(f"error: {' '.join(line.split())}")
    raise typer.Exit(code)


@contextmanager
def one_line_errors(reword: Callable[[str], str] = str) -> Iterator[None]:
    """Turn every failure into one line and an exit code: 2 for wrong use, 1 for a failure, 130 for Ctrl-C.

    reword: rewrites a message in terms of the options that a user types
    """
    try:
        yield
    except (typer.Exit, typer.Abort, SystemExit):
        raise
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). What Python still buffers must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        _stop(MESSAGE, INTERRUPTED)
    except OSError as error:
        about = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or error}{about}; no output was changed. Fix this, and run the command again.")
    except MemoryError:
        _stop("out of memory; no output was changed. Store fewer examples, or smaller ones: rows of fewer columns.")
    except Exception as error:
        if DEBUG in os.environ:
            raise
        if isinstance(error, ValueError | TypeError):
            _stop(reword(str(error)), WRONG_USE)
        _stop(
            f"{type(error).__name__}: {error}. This is a fault of the program; no output was changed. Run the command "
            f"again with {DEBUG}=1 to see where it happened, and report it."
        )


def label_reading(path: Path) -> str:
    """What is shown while a file is read, with an estimate of the time if that is `MIN_ESTIMATED` seconds or more."""
    size = path.stat().st_size if path.suffix.lower() in TABLES and path.is_file() else 0
    seconds = size / BYTES_PER_SECOND
    about = f" ({size / 1e6:,.0f} MB, usually about {duration(seconds)})" if seconds >= MIN_ESTIMATED else ""
    return f"reading {path}{about}"


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show that work is going on, until a progress bar takes over."""
    label = escape_unprintable(label)
    if not is_interactive():
        with show_waiting(label):
            yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=sys.stderr).status(Text(label)) as spinner:  # not a str: a name may look like markup
        SHOWN.append(spinner)
        try:
            yield
        finally:
            SHOWN.remove(spinner)


def format_summary(
    summary: RunSummary, kind: AnyKind, description: Description, reword: Callable[[str], str]
) -> list[str]:
    """Format a summary as lines; `description` is that of the generator that drew the items."""
    items = kind.item if summary.n == 1 else kind.items
    n_used = "" if summary.kept == summary.stored else f"{summary.kept:,} of "
    reason = f" (instead of {summary.generator}, because of the conditions)"
    reason = "" if description.name == summary.generator else reason
    lines = [
        f"{summary.n:,} new {items} from {n_used}{summary.stored:,} stored, seed {summary.seed}",
        f"generator {description.name}{reason}: {description.summary}",
        *_format_novelty(summary),
    ]
    if summary.figures:
        figures = {name: "unknown" if value is None else f"{value:.3g}" for name, value in summary.figures.items()}
        lines.append(", ".join(f"{name} {value}" for name, value in figures.items()))
    classes = [(name, tally) for name, tally in summary.classes.items() if tally.share or tally.predicted]
    for name, tally in classes if len(classes) <= MAX_CLASSES else ():
        predicted = "" if tally.predicted is None else f" (predicted {100 * tally.predicted:.1f} %)"
        lines.append(f"class {name}: {100 * tally.share:.1f} %{predicted}")
    warning = "" if summary.trial is None else summary.trial.warning
    first = [reword(warning)] if warning else []
    return [*first, *lines, *(f"note: {reword(note)}" for note in summary.notes if note != warning)]


def _format_novelty(summary: RunSummary) -> list[str]:
    target = "" if summary.novelty_target is None else f", target {summary.novelty_target:g}"
    expected = summary.novelty_predicted
    predicted = "" if expected is None else f"predicted {abs(expected):.3f}{target}"
    if summary.novelty is None or summary.copies is None:
        return [f"novelty {predicted}"] if predicted else []
    near = "unknown" if summary.near_copies is None else f"{100 * summary.near_copies:.1f} %"
    copies = f"exact copies {100 * summary.copies:.1f} %, near-copies {near}"
    if not predicted:
        return [f"novelty {abs(summary.novelty):.3f}, {copies}"]
    if summary.copies > MAX_COPIES:
        copies += ": a larger --novelty or a smaller --beta gives fewer of them"
    decoded = f"{abs(summary.novelty_decoded or 0):.3f} after decoding"
    return [f"novelty {abs(summary.novelty):.3f} ({predicted}), {decoded}, {copies}"]


def _compare_with_natural(beta: float, natural: float | None) -> str:
    """What a beta is good for, if it differs from that of the rule `natural` by a factor of two."""
    if natural is None or 0.5 <= beta / natural <= 2:
        return ""
    return ": too hot for generation" if beta < natural else ": cold, draws are near stored examples"


def print_inspection(inspection: Inspection, source: str, reword: Callable[[str], str]) -> None:
    """Print the stored examples, the entropy curve and the rules as tables."""
    bank, facts = inspection.bank, []
    if bank is not None:
        low, high = (f"{norm:.3g}" for norm in bank.norms)
        facts = [
            ("dimension of a row of p_beta", f"{bank.d:,} (rank {bank.rank:,})"),
            ("lengths before scaling", low if low == high else f"{low} to {high}"),
            ("duplicates", f"{bank.duplicates:,}"),
            ("lost in encoding and decoding", str(bank.loss)),
        ]
    rest = Counter(type_name for _, type_name in inspection.columns[MAX_COLUMNS:])
    counts = ", ".join(f"{n:,} {type_name}" for type_name, n in rest.items())
    _print_table(
        ("what", source),
        ("stored", f"{inspection.K:,} ({inspection.kind})"),
        ("generator", inspection.generator),
        *facts,
        *((f"class {name}", f"{n:,}") for name, n in inspection.classes.items()),
        *((f"column {name}", type_name) for name, type_name in inspection.columns[:MAX_COLUMNS]),
        *([(f"{rest.total():,} more columns", f"{counts} (--json lists them)")] if rest else []),
        *(("note", reword(note)) for note in inspection.notes),
    )
    if bank is None:
        return
    print("What follows is about p_beta, used by the generator hopfield.")
    natural = next((rule.beta for rule in bank.choices if rule.rule == "natural" and not rule.failure), None)
    rules = [
        (rule.name, "", "", rule.failure)
        if rule.failure
        else (
            rule.name,
            f"{rule.beta:.4g}",
            f"{rule.novelty:.3f}",
            USES[rule.rule] + _compare_with_natural(rule.beta, natural),
        )
        for rule in bank.choices
    ]
    _print_table(("rule", "beta", "novelty", "what it is"), *rules)
    step = max(len(bank.curve.beta) // N_BARS, 1)
    points = zip(bank.curve.beta[::step], bank.curve.entropy[::step], strict=True)
    max_entropy = math.log(inspection.K) or 1.0
    bars = [(f"{beta:.3g}", f"{H:.2f}", "█" * round(BAR_WIDTH * H / max_entropy)) for beta, H in points]
    _print_table(("beta", "entropy", f"of {max_entropy:.2f} nats: diffuse to sharp"), *bars)


def _print_table(*rows: tuple[str, ...]) -> None:
    """Print a table to standard output; the first row is its heading."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in rows[0]:
        table.add_column(Text(escape_unprintable(heading)), overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(escape_unprintable(cell)) for cell in row))  # not a str: a name may look like markup
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(width=None if has_width else 100, highlight=False).print(table)
