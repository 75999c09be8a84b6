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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from .._backend.checks import escape_unprintable
from .._backend.console import SHOWN, is_interactive, show_waiting
from .._backend.interruption import INTERRUPTED, MESSAGE
from ..kinds.summary import RunSummary

if TYPE_CHECKING:
    from ..evaluation.inspection import Inspection
    from ..kinds.generator import Description
    from ..kinds.kind import AnyKind

FAILED, WRONG_USE = 1, 2
DEBUG = "STOCHATTN_DEBUG"
"""An environment variable. If it is set, failures show their traceback."""
MAX_COPIES = 0.05
"""Share of exact copies above which a summary says what to do about them."""
MAX_CLASSES = 10
"""Classes that a summary lists; the json has all of them."""
MAX_COLUMNS = 100
"""Columns that `inspect` lists, and of the others it says how many there are; the json has all of them."""
N_BARS, BAR_WIDTH = 12, 30
USES = {
    "natural": "draws are as far from the stored items as these are from each other: for generation",
    "inflection": "where attention turns sharp (Eq. 11): too hot for generation",
    "knee": "the rule of the published scripts: too hot for generation",
    "leave_one_out": "the most likely beta for each item given the others",
}
"""What each rule for beta is for, by its name."""


_PLAIN = "stochattn.plain"
_ASCII = {"█": "#", "β": "beta", "−": "-", "–": "-", "×": "x", "·": ".", "±": "+-", "→": "->"}
_ASCII |= {"“": '"', "”": '"', "‘": "'", "’": "'"}
_ASCII |= {"…": "~"}  # ends a text that rich cuts off in a table, whose lines three dots would make too long
"""What stands for a character on a terminal that cannot show it; letters lose their accents."""


def print_anywhere() -> None:
    """From now on, a character that a terminal cannot show is replaced by a plain one; it is not an error."""
    codecs.register_error(_PLAIN, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    decomposed = (unicodedata.normalize("NFKD", one).encode("ascii", "ignore").decode() for one in letters)
    return "".join(_ASCII.get(one) or plain or "?" for one, plain in zip(letters, decomposed, strict=True)), error.end


def print_json(text: str) -> None:
    """Print json to standard output, with what a terminal must not see or cannot show as escapes."""
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
def one_line_errors(as_typed: Callable[[str], str] = str) -> Iterator[None]:
    """Turn every failure into one line and an exit code: 2 for wrong use, 1 for a failure, 130 for Ctrl-C.

    as_typed: a message with options as a user types them
    """
    try:
        yield
    except (typer.Exit, typer.Abort, SystemExit):
        raise
    except BrokenPipeError:
        # The reader has gone (`| head`). What Python still buffers for it must not fail a second time at exit.
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
            _stop(as_typed(str(error)), WRONG_USE)
        _stop(
            f"{type(error).__name__}: {error}. This is a fault of the program; no output was changed. Run the command "
            f"again with {DEBUG}=1 to see where it happened, and report it."
        )


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show that work is going on, until progress with a known end takes over."""
    label = escape_unprintable(label)
    if not is_interactive():
        with show_waiting(label):
            yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=sys.stderr).status(Text(label)) as spinner:  # plain: a name may look like markup
        SHOWN.append(spinner)
        try:
            yield
        finally:
            SHOWN.remove(spinner)


def summary_lines(summary: RunSummary, kind: AnyKind, about: Description, as_typed: Callable[[str], str]) -> list[str]:
    """A summary for a reader; `about` describes the generator that drew."""
    items = kind.item if summary.n == 1 else kind.items
    kept = "" if summary.kept == summary.stored else f"{summary.kept:,} of "
    instead = "" if about.name == summary.generator else f" (instead of {summary.generator}, because of the conditions)"
    lines = [
        f"{summary.n:,} new {items} from {kept}{summary.stored:,} stored, seed {summary.seed}",
        f"generator {about.name}{instead}: {about.summary}",
        *_novelty_lines(summary),
    ]
    if summary.figures:
        figures = {name: "unknown" if value is None else f"{value:.3g}" for name, value in summary.figures.items()}
        lines.append(", ".join(f"{name} {value}" for name, value in figures.items()))
    shares = {name: one for name, one in summary.classes.items() if one.share or one.predicted}
    for name, one in shares.items() if len(shares) <= MAX_CLASSES else ():
        predicted = "" if one.predicted is None else f" (predicted {100 * one.predicted:.1f} %)"
        lines.append(f"class {name}: {100 * one.share:.1f} %{predicted}")
    warning = "" if summary.trial is None else summary.trial.warning
    first = [as_typed(warning)] if warning else []
    return [*first, *lines, *(f"note: {as_typed(note)}" for note in summary.notes if note != warning)]


def _novelty_lines(summary: RunSummary) -> list[str]:
    target = "" if summary.novelty_target is None else f", target {summary.novelty_target:g}"
    law = summary.novelty_predicted
    predicted = "" if law is None else f"predicted {abs(law):.3f}{target}"
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


def print_inspection(found: Inspection, source: str, as_typed: Callable[[str], str]) -> None:
    """The stored examples, the entropy curve and the rules, as tables on standard output."""
    bank, facts = found.bank, []
    if bank is not None:
        low, high = (f"{norm:.3g}" for norm in bank.norms)
        facts = [
            ("dimension of a row of p_beta", f"{bank.d:,} (rank {bank.rank:,})"),
            ("lengths before scaling", low if low == high else f"{low} to {high}"),
            ("duplicates", f"{bank.duplicates:,}"),
            ("lost in encoding and decoding", str(bank.loss)),
        ]
    _table(
        ("what", source),
        ("stored", f"{found.K:,} ({found.kind})"),
        ("generator", found.generator),
        *facts,
        *((f"class {name}", f"{n:,}") for name, n in found.classes.items()),
        *_column_lines(found.columns),
        *(("note", as_typed(note)) for note in found.notes),
    )
    if bank is None:
        return
    print("What follows is about p_beta, used by the generator hopfield.")
    rules = [
        (
            one.name,
            *(("", "") if one.failure else (f"{one.beta:.4g}", f"{one.novelty:.3f}")),
            one.failure or USES[one.rule],
        )
        for one in bank.choices
    ]
    _table(("rule", "beta", "novelty", "what it is"), *rules)
    every = max(len(bank.curve.beta) // N_BARS, 1)
    points = zip(bank.curve.beta[::every], bank.curve.entropy[::every], strict=True)
    most = math.log(found.K) or 1.0
    bars = [(f"{beta:.3g}", f"{H:.2f}", "█" * round(BAR_WIDTH * H / most)) for beta, H in points]
    _table(("beta", "entropy", f"of {most:.2f} nats: diffuse to sharp"), *bars)


def _column_lines(columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and types of the first columns, and how many of each type follow them."""
    lines = [(f"column {name}", kind) for name, kind in columns[:MAX_COLUMNS]]
    others = Counter(kind for _, kind in columns[MAX_COLUMNS:])
    counted = ", ".join(f"{n:,} {kind}" for kind, n in others.items())
    return [*lines, (f"{others.total():,} more columns", f"{counted} (--json lists them)")] if others else lines


def _table(*rows: tuple[str, ...]) -> None:
    """A table on standard output; the first row is its heading."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in rows[0]:
        table.add_column(Text(escape_unprintable(heading)), overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(escape_unprintable(cell)) for cell in row))  # plain text: a name may look like markup
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(width=None if known else 100, highlight=False).print(table)
