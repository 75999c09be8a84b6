"""What commands say: one-line errors, summaries, tables. Results go to standard output, all else to standard error."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from .._backend.progress import SHOWN
from ..evaluation.inspection import Inspection

FAILED, WRONG_USE = 1, 2
DEBUG = "STOCHATTN_DEBUG"
"""An environment variable: where it is set, failures show where they came from."""


MANY_COPIES = 0.05
MOST_CLASSES = 10
"""Classes that a summary lists; the json has all of them."""


def say(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr)


def stop(line: str, code: int) -> NoReturn:
    """End with one line on standard error."""
    say(f"error: {' '.join(line.split())}")
    raise typer.Exit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn every failure into one line and an exit code: 2 for wrong use, 1 for what failed while running."""
    try:
        yield
    except (typer.Exit, typer.Abort, SystemExit):
        raise
    except BrokenPipeError:
        # The reader went away (`| head`); what Python still holds for it must not fail a second time at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        stop("interrupted; no output was changed.", FAILED)
    except OSError as error:
        about = f" ({error.filename})" if error.filename else ""
        stop(f"{error.strerror or error}{about}; no output was changed. Mend that, and run the command again.", FAILED)
    except MemoryError:
        stop("out of memory; no output was changed. Store fewer examples, or pass --variance 0.95.", FAILED)
    except (ValueError, TypeError) as error:
        if DEBUG in os.environ:
            raise
        stop(str(error), WRONG_USE)
    except Exception as error:
        if DEBUG in os.environ:
            raise
        stop(
            f"{type(error).__name__}: {error}. This is a fault of the program; no output was changed. Run again with "
            f"{DEBUG}=1 to see where, and report it.",
            FAILED,
        )


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show, where someone watches, that something is going on; until a bar says how much of it is done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(text) as spinner:
        SHOWN.append(spinner)
        try:
            yield
        finally:
            SHOWN.remove(spinner)


def told(facts: dict[str, Any], asked_novelty: float | None) -> str:
    """A summary of a sampling run for a reader."""
    asked = "" if asked_novelty is None else f", asked {asked_novelty:g}"
    own = facts["target"] == "native"
    kept = "" if facts["kept"] == facts["stored"] else f"{facts['kept']:,} of "
    law = "" if own else f"exact law {abs(facts['novelty_predicted']):.3f}{asked}"
    lines = [
        f"{facts['n']:,} new from {kept}{facts['stored']:,} stored ({facts['kind']}, d = {facts['d']}), "
        f"seed {facts['seed']}",
        "this kind's own sampler; --target paper samples p_beta"
        if own
        else f"beta {facts['beta']:.6g} ({facts['rule'].replace('_', '-')}), {facts['sampler']} sampler",
    ]
    if own:
        lines.append(f"novelty {abs(facts['novelty']):.3f}, copies {facts['copies']:.1%}")
    elif facts["novelty"] is None:
        lines.append(f"novelty of the {law}")
    else:
        lines.append(f"novelty {abs(facts['novelty']):.3f} as drawn ({law}), {facts['novelty_decoded']:.3f} as decoded")
        lines.append(f"copies {facts['copies']:.1%}")
        if facts["copies"] > MANY_COPIES:
            lines[-1] += ": many repeat a stored one; a larger --novelty moves them away"
    if "identity" in facts:
        lines[-1] += f", identity to the nearest stored {facts['identity']:.3f}"
    if "profile_pass" in facts:
        lines[-1] += f", profile pass {facts['profile_pass']:.1%} (E < 0.01)"
    classes = {name: share for name, share in facts.get("classes", {}).items() if any(share.values())}
    if len(classes) <= MOST_CLASSES:
        said = {c: "" if s["predicted"] is None else f" (predicted {s['predicted']:.1%})" for c, s in classes.items()}
        lines += [f"class {c}: {s['share']:.1%}{said[c]}" for c, s in classes.items()]
    lines += [f"note: {note}" for note in facts["notes"]]
    return "\n".join(lines)


def tell_inspection(found: Inspection, source: str) -> None:
    """What is stored, the entropy curve and the rules, as tables on standard output."""
    low, high = (f"{norm:.3g}" for norm in found.norms)
    stored = [
        ("stored", f"{found.K:,} ({found.kind})"),
        ("dimension of a row", f"{found.d:,} (rank {found.rank:,})"),
        ("lengths before scaling", low if low == high else f"{low} to {high}"),
        ("duplicates", f"{found.duplicates:,}"),
        ("lost on the way to rows and back", str(found.loss)),
        *((f"class {name}", f"{n:,}") for name, n in found.classes.items()),
        *((f"column {name}", kind) for name, kind in found.columns),
        *(("note", note) for note in found.notes),
    ]
    _table([("what", source), *stored])
    rules = [
        (choice.rule.replace("_", "-"), f"{choice.beta:.4g}", f"{choice.novelty:.3f}", USES[choice.rule])
        if not choice.failure
        else (choice.rule.replace("_", "-"), "", "", choice.failure)
        for choice in found.choices
    ]
    if found.native:
        print(f"sample draws by {found.native}; what follows is about p_beta, --target paper.")
    _table([("rule", "beta", "novelty", "what it is"), *rules])
    every = found.curve.beta[:: len(found.curve.beta) // 12]
    entropy = found.curve.entropy[:: len(found.curve.entropy) // 12]
    most = math.log(found.K) or 1.0
    bars = [(f"{b:.3g}", f"{h:.2f}", "█" * round(30 * h / most)) for b, h in zip(every, entropy, strict=True)]
    _table([("beta", "entropy", f"of {most:.2f} nats: diffuse to sharp"), *bars])


USES = {
    "natural": "as far from the stored as these are from each other: to generate at",
    "inflection": "where attention turns sharp (Eq. 11): hot for generation",
    "knee": "the rule of the published scripts: hot for generation",
    "leave_one_out": "the likeliest beta for each item given the others",
}


def _table(rows: list[tuple[str, ...]]) -> None:
    """A table on standard output; the first row is its heading."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in rows[0]:
        table.add_column(Text(heading), overflow="fold")
    for row in rows[1:]:
        table.add_row(*map(Text, row))  # plain text: a name may look like markup
    Console(width=None if sys.stdout.isatty() else 100, highlight=False).print(table)
