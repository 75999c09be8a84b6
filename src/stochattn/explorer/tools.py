"""The tools of a page: Python code and a command for its items, a file of them, and a verdict.

The verdict of split-half validation and privacy is computed in another process, which can be cancelled.
"""

from __future__ import annotations

import atexit
import datetime
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import panel as pn

from .._backend.console import hide_warnings
from .._backend.html import Html, number, tag
from .._backend.parallel import delay_ctrl_c, end_with_parent
from .._backend.state import Plain
from ..kinds.codec import Range
from ..kinds.options import option_fields
from ..kinds.summary import Asked, RunSummary
from ..report.page import STYLE, callout, list_findings
from ..synthesizer.synthesizer import Synthesizer
from ..synthesizer.writing import write_samples
from .fields import Field, Message, format_error
from .panel import WIDE, Form, apply, asset, in_thread
from .state import Drawn, Explorer, PageSettings, group_by_ratio, select_only

if TYPE_CHECKING:
    from ..report.checks import Verdict

MAX_LISTED = 12  # indices that a line of code lists; otherwise it lists those that are left out


def python_lines(explorer: Explorer, settings: PageSettings) -> str:
    """Write a program that draws the items of these settings as `new`; in a notebook `synth` exists already."""
    options, origin = explorer.options(settings), explorer.origin
    functions = [name for name, value in options.items() if callable(value)]
    options = {name: value for name, value in options.items() if name not in functions}
    comments = [f"# Add {name}=..., your function, which cannot be written here." for name in functions]
    lines = ["import stochattn as sa", "", *comments]
    if origin is not None:
        kind = {} if origin.kind is None else {"kind": origin.kind}
        is_default = settings.generator == next(iter(explorer.base.kind.generators))
        fit = explorer.base.generator_fit
        is_chosen = fit.choice == fit.requested  # `fit` makes the same trial and chooses it again
        generator = {} if is_default and is_chosen and not options else {"generator": settings.generator}
        keywords = {**kind, **origin.reading, **generator, **options}
        lines.append(f"synth = sa.fit({_format_arguments(origin.path, keywords)})")
        lines += _weight_lines(explorer.weigh(settings).weights)
    else:
        if options or settings.generator != explorer.base.choice.name:
            lines.append(f"synth = synth.with_generator({_format_arguments(settings.generator, options)})")
        ratios = np.ones(explorer.base.codec.K)
        for k, ratio in settings.ratios:
            ratios[k] = ratio
        lines += _weight_lines(ratios)
    if settings.conditions:
        values = explorer.base.kind.parse_condition(explorer.base.codec, settings.conditions)
        lines.append(f"synth = synth.condition({literal(values)})")
    return "\n".join([*lines, f"new = synth.sample({settings.n}, rng={settings.seed})"])


def _format_arguments(first: str, keywords: Mapping[str, object]) -> str:
    return ", ".join([repr(first), *(f"{name}={literal(value)}" for name, value in keywords.items())])


def _weight_lines(weights: np.ndarray) -> list[str]:
    """Return lines that give stored items these weights (K,)."""
    lines, indices = [], np.flatnonzero(weights > 0).tolist()
    if len(indices) < len(weights):
        left_out = np.flatnonzero(weights == 0).tolist()
        comprehension = f"[k for k in range({len(weights)}) if k not in {set(left_out)!r}]"
        lines.append(f"synth = synth.subset({indices if len(indices) <= MAX_LISTED else comprehension})")
    groups = group_by_ratio({k: float(weights[k]) for k in indices if weights[k] != 1})
    return [*lines, *(f"synth = synth.weight({ratio!r}, {members})" for ratio, members in groups.items())]


def literal(value: object) -> str:
    """Write a value as Python code.

    >>> literal({"age": Range(ge=40), "city": {"Oslo", "Bergen"}, "n": np.float64(2.5)})
    "{'age': sa.Range(ge=40), 'city': {'Bergen', 'Oslo'}, 'n': 2.5}"
    """
    if isinstance(value, Range):
        return f"sa.Range({', '.join(f'{name}={literal(end)}' for name, end in value.ends().items())})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, AbstractSet):
        return f"{{{', '.join(sorted(map(literal, value)))}}}"
    if isinstance(value, tuple):
        elements = ", ".join(map(literal, value))
        return f"({elements},)" if len(value) == 1 else f"({elements})"
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, datetime.date | Path):
        return repr(str(value))
    return repr(value)


def record_choices(explorer: Explorer, settings: PageSettings) -> Asked | None:
    """Return the choices to type for these settings, as a summary records them; None without a file."""
    if explorer.origin is None:
        return None
    kind, asked = explorer.base.kind, explorer.origin.asked
    reading = {name: value for name, value in asked.options.items() if name in option_fields(kind.codec_options)}
    options: dict[str, Plain] = {**reading}
    for name, value in explorer.options(settings).items():  # the command line reads a tuple as one string
        options[name] = ":".join(map(str, value)) if isinstance(value, tuple) else value
    weights, subset, weight = explorer.weigh(settings).weights, asked.subset, asked.weight
    ids, ratios = explorer.base.codec.ids, dict(settings.ratios)
    if 0 in ratios.values():
        subset = (select_only(ids, weights > 0),)
    for ratio, indices in group_by_ratio(ratios).items():
        mask = np.isin(np.arange(len(ids)), indices)
        weight = (*weight, f"{select_only(ids, mask)}:{ratio!r}")
    return Asked(options, settings.conditions, subset, weight)


def command(explorer: Explorer, settings: PageSettings, out: str) -> str | None:
    """Return the command that writes the items of these settings to `out`; None without a file to read."""
    asked, origin = record_choices(explorer, settings), explorer.origin
    if asked is None or origin is None:
        return None
    return origin.command(asked, settings.generator, settings.n, settings.seed, out)


def default_output(explorer: Explorer) -> str:
    """Return a name for the file of new items, in the format of the input if it can be written."""
    source = Path(explorer.base.source or "items")
    formats = explorer.base.kind.formats
    extensions = [extension for file_format in formats for extension in file_format.extensions]
    extension = source.suffix.lower() if source.suffix.lower() in extensions else extensions[0]
    return f"new-{source.stem}{extension}"


def save(explorer: Explorer, settings: PageSettings, out: str) -> RunSummary:
    """Write the items of these settings as the command does: with a summary, and never over another file."""
    synth = explorer.synthesizer(settings)
    return write_samples(synth, settings.n, settings.seed, out, asked=record_choices(explorer, settings))


N_JUDGED = 300


class Cancelled(Exception):
    """The user cancelled the work."""


class VerdictProcess:
    """A verdict on n draws of a synthesizer in another process: pages stay responsive, and `cancel` ends it at once."""

    def __init__(self, synth: Synthesizer, seed: int, n: int = N_JUDGED) -> None:
        spawn, self._cancelled = multiprocessing.get_context("spawn"), False
        self._receiver, sender = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_send_verdict, args=(pickle.dumps((synth, n, seed)), sender))
        with delay_ctrl_c():  # it is for the server, which ends this process itself
            self._process.start()
        sender.close()
        atexit.register(self.cancel)  # otherwise it would outlive this program

    def result(self) -> tuple[Verdict, float]:
        """Wait for the verdict and an AUC. ValueError if the process fails, `Cancelled` if it was cancelled."""
        outcome: tuple[Verdict, float] | str = "no message"
        with suppress(EOFError):  # the process was ended
            outcome = self._receiver.recv()
        self._process.join()
        atexit.unregister(self.cancel)
        if self._cancelled:
            raise Cancelled
        if isinstance(outcome, str):
            raise ValueError(f"the verdict failed: {outcome}")
        return outcome

    def cancel(self) -> None:
        """End the process and its children."""
        self._cancelled = True
        if self._process.pid is not None and self._process.is_alive():
            if sys.platform != "win32":
                with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or has ended
                    os.killpg(self._process.pid, signal.SIGTERM)
            self._process.terminate()


def _send_verdict(payload: bytes, sender: Connection) -> None:
    """Send the quick verdict of a report on n draws and the AUC of membership inference, or why there is none."""
    from ..evaluation import as_evaluated
    from ..report import judge, measure

    if sys.platform != "win32":
        os.setsid()  # so that `cancel` also ends the processes that begin here
        os.nice(5)  # pages have priority
        end_with_parent(lambda code: os.killpg(0, signal.SIGTERM))
    try:
        synth, n, seed = pickle.loads(payload)
        synth = as_evaluated(synth)
        with hide_warnings():
            evidence = measure(synth, synth.sample_items(n, seed), seed, progress=False, quick=True)
        sender.send((judge(evidence), evidence.split_half.membership_auc))
    except Exception as error:  # the page must show any error
        sender.send(format_error(error))


def verdict_html(verdict: Verdict, membership_auc: float) -> Html:
    """Show a verdict as a box, as in a report."""
    findings = list_findings((check.finding, check.passed) for check in verdict.checks if check.finding)
    auc = tag("p", f"AUC of membership inference {number(membership_auc, 2)}; 0.5 is chance.", class_="note")
    return tag("div", callout(verdict.tone, verdict.headline, verdict.advice, findings, auc), role="status")


PYTHON, COMMAND, OUT, SAVE, VERDICT = "python", "command", "out", "save", "verdict"
ABOUT_VERDICT = "Split-half validation and privacy, in the background."


class Tools:
    """The code, the file and the verdict of the items that a page shows."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer, self._is_judging, self._is_cancelled = explorer, False, False
        self._drawn: Drawn | None = None
        self._process: VerdictProcess | None = None
        self._out = default_output(explorer)
        command_field: list[Field] = [{"type": "code", "id": COMMAND, "label": "Command"}] if explorer.origin else []
        fields: list[Field] = [
            {"type": "section", "id": "code-section", "label": "Code"},
            {"type": "code", "id": PYTHON, "label": "Python"},
            *command_field,
            {"type": "section", "id": "save-section", "label": "Save and evaluate"},
            {"type": "text", "id": OUT, "label": "File, in the format of its extension"},
            {"type": "button", "id": SAVE, "label": "Save", "hint": ""},
            {"type": "button", "id": VERDICT, "label": "Evaluate", "hint": ABOUT_VERDICT},
        ]
        about = {"label": "Code and verdict", "fields": fields, "state": {OUT: {"value": self._out}}, "spread": True}
        self.form = Form(self._on_message, **about, **WIDE)
        styles = [asset("theme.css"), STYLE, asset("cards.css")]
        self.verdict = pn.pane.HTML("", stylesheets=styles, **WIDE)

    def update(self, drawn: Drawn) -> None:
        """Show tools for other items; a running verdict goes on, and a finished verdict is marked as outdated."""
        self._drawn = drawn
        if not self._is_judging and self.verdict.object:
            self.verdict.object = tag("p", "The items have changed since the last verdict.", class_="note")
        pn.state.execute(partial(self._show_code, drawn))

    async def _show_code(self, drawn: Drawn) -> None:
        out = self._out
        code = await in_thread(python_lines, self.explorer, drawn.settings)
        shell = await in_thread(command, self.explorer, drawn.settings, out)
        if drawn is self._drawn:
            self._set({PYTHON: {"value": code}, COMMAND: {"value": shell or ""}})

    def _on_message(self, message: Message) -> None:
        name, drawn = message["id"], self._drawn
        if name == OUT:
            self._out = str(message.get("value") or default_output(self.explorer))
            self._set({SAVE: {"error": "", "hint": ""}})
            if drawn is not None:
                pn.state.execute(partial(self._show_code, drawn))
        elif name == SAVE and drawn is not None:
            pn.state.execute(partial(self._save, drawn))
        elif name == VERDICT and self._is_judging:
            self.close()
        elif name == VERDICT and drawn is not None:
            self._is_judging, self._is_cancelled = True, False  # at once, so that a double click starts only one
            pn.state.execute(partial(self._judge, drawn))

    async def _save(self, drawn: Drawn) -> None:
        out = self._out
        self._set({SAVE: {"disabled": True, "error": "", "hint": "Saving…"}})
        try:
            summary = await in_thread(save, self.explorer, drawn.settings, out)
        except Exception as error:  # the page must show any error and go on
            self._set({SAVE: {"error": format_error(error), "hint": ""}})
        else:
            self._set({SAVE: {"hint": f"Saved {summary.n:,} to {out}."}})

    async def _judge(self, drawn: Drawn) -> None:
        label = "Validating on halves of the stored examples. This takes a while…"
        self.verdict.object = tag("p", label, class_="note")
        self._set({VERDICT: {"label": "Cancel"}})
        html = tag("p", "Cancelled.", class_="note")
        try:
            synth = await in_thread(self.explorer.synthesizer, drawn.settings)
            if self._is_cancelled:
                raise Cancelled
            self._process = process = await in_thread(VerdictProcess, synth, drawn.settings.seed)
            if self._is_cancelled:
                process.cancel()
            html = verdict_html(*await in_thread(process.result))
        except Cancelled:
            pass
        except Exception as error:  # for example options that cannot be sent to another process
            html = tag("p", format_error(error), class_="note")
        finally:
            self._process, self._is_judging = None, False
            self._set({VERDICT: {"label": "Evaluate"}})
            self.verdict.object = html

    def close(self) -> None:
        """Cancel a running verdict."""
        self._is_cancelled = True
        if self._process is not None:
            self._process.cancel()

    def _set(self, changes: Mapping[str, Mapping[str, Plain]]) -> None:
        state = {OUT: {"value": self._out}, **changes}
        apply(lambda: self.form.param.update(state={**self.form.state, **state}))
