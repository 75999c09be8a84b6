"""The tools of a page: Python code and a command for its items, a file of them, and a verdict.

The verdict of split-half validation and privacy is computed in another process, which can be cancelled.
"""

from __future__ import annotations

import atexit
import datetime
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import panel as pn

from .._backend.html import Html, number, tag
from .._backend.state import Plain
from ..kinds.codec import Range
from ..kinds.options import option_fields
from ..kinds.summary import Asked, RunSummary
from ..synthesizer.synthesizer import Synthesizer
from ..synthesizer.writing import write_samples
from .fields import Field, Message, format_error
from .panel import WIDE, Form, apply, asset, in_thread, report_style, start
from .state import Drawn, Explorer, PageSettings, group_by_ratio, select_only

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
        keywords = {**kind, **origin.reading, **_generator_arguments(explorer, settings, options)}
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


def _generator_arguments(
    explorer: Explorer, settings: PageSettings, options: Mapping[str, object]
) -> dict[str, object]:
    """Return the generator as an argument of `fit`, unless it is the default, and its options."""
    is_default = settings.generator == next(iter(explorer.base.kind.generators))
    fit = explorer.base.generator_fit
    is_chosen = fit.choice == fit.requested  # `fit` makes the same trial and chooses it again
    return {**({} if is_default and is_chosen and not options else {"generator": settings.generator}), **options}


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
    asked = record_choices(explorer, settings)
    if asked is None or explorer.origin is None:
        return None
    return explorer.origin.command(asked, settings.generator, settings.n, settings.seed, out)


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
PARENT_SECONDS = 0.5
"""How often a verdict process checks that its parent is alive."""


class PageVerdict(NamedTuple):
    """A verdict: headline, tone (good, fair or bad), advice, its findings with whether they passed, and an AUC."""

    headline: str
    tone: str
    advice: str
    findings: tuple[tuple[str, bool | None], ...]
    membership_auc: float | None


class Cancelled(Exception):
    """The user cancelled the work."""


class VerdictProcess:
    """A verdict on n draws of a synthesizer in another process: pages stay responsive, and `cancel` ends it at once."""

    def __init__(self, synth: Synthesizer, seed: int, n: int = N_JUDGED) -> None:
        self._payload = pickle.dumps((synth, n, seed))
        self._cancelled = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main({os.getpid()})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the server, which ends this process itself
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _live.add(self)

    def result(self) -> PageVerdict:
        """Wait for the verdict. ValueError if the process fails, `Cancelled` if it was cancelled."""
        try:
            out, error = self._process.communicate(self._payload)
        finally:
            _live.discard(self)
        if self._cancelled:
            raise Cancelled
        if self._process.returncode:
            last = (error.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"the verdict failed: {last}")
        fields = json.loads(out)
        return PageVerdict(**{**fields, "findings": tuple((str(a), b) for a, b in fields["findings"])})

    def cancel(self) -> None:
        """End the process and its children."""
        self._cancelled = True
        _live.discard(self)
        if self._process.poll() is not None:
            return
        if sys.platform == "win32":
            self._process.terminate()
        else:
            with suppress(ProcessLookupError, PermissionError):  # the process has ended already
                os.killpg(self._process.pid, signal.SIGTERM)


_live: set[VerdictProcess] = set()  # processes that are not finished


@atexit.register
def cancel_all() -> None:
    """End all running verdicts, which would otherwise outlive this program."""
    for process in tuple(_live):
        process.cancel()


def compute_verdict(synth: Synthesizer, n: int, seed: int) -> PageVerdict:
    """Return the quick verdict of a report on n draws."""
    from ..evaluation import as_evaluated
    from ..report import judge, measure

    synth = as_evaluated(synth)
    evidence = measure(synth, synth.sample_items(n, seed), seed, progress=False, quick=True)
    verdict, auc = judge(evidence), evidence.split_half.membership_auc
    findings = tuple((check.finding, check.passed) for check in verdict.checks if check.finding)
    return PageVerdict(verdict.headline, str(verdict.tone), verdict.advice, findings, auc if auc == auc else None)


def main(parent: int) -> None:
    """Read a synthesizer from standard input and print its verdict as JSON; end with the process `parent`."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # pages have priority
    synth, n, seed = pickle.loads(sys.stdin.buffer.read())
    verdict = compute_verdict(synth, n, seed)
    findings = [[finding, None if passed is None else bool(passed)] for finding, passed in verdict.findings]
    print(json.dumps({**verdict._asdict(), "findings": findings}))


def _end_with(parent: int) -> None:
    """Wait for the end of the parent, which may be killed without warning, and then end this process group."""
    if sys.platform == "win32":  # a process keeps the number of its parent there
        return
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os.killpg(0, signal.SIGTERM)


def verdict_html(verdict: PageVerdict) -> Html:
    """Show a verdict as a box, as in a report."""
    from ..report.page import callout, list_findings

    auc = tag("p", f"AUC of membership inference {number(verdict.membership_auc, 2)}; 0.5 is chance.", class_="note")
    box = callout(verdict.tone, verdict.headline, verdict.advice, list_findings(verdict.findings), auc)
    return tag("div", box, role="status")


PYTHON, COMMAND, OUT, SAVE, VERDICT = "python", "command", "out", "save", "verdict"
ABOUT_VERDICT = "Split-half validation and privacy, in the background."


class Tools:
    """The code, the file and the verdict of the items that a page shows."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer, self._is_judging, self._is_cancelled = explorer, False, False
        self._drawn: Drawn | None = None
        self._process: VerdictProcess | None = None
        self._out, self._state = default_output(explorer), dict[str, Field]()
        self.form = Form(self._on_message, label="Code and verdict", fields=_tool_fields(explorer), spread=True, **WIDE)
        styles = [asset("theme.css"), report_style(), asset("cards.css")]
        self.verdict = pn.pane.HTML("", stylesheets=styles, **WIDE)
        self._state[OUT] = {"value": self._out}
        self._push()

    def update(self, drawn: Drawn) -> None:
        """Show tools for other items; a running verdict goes on, and a finished verdict is marked as outdated."""
        self._drawn = drawn
        if not self._is_judging and self.verdict.object:
            self.verdict.object = tag("p", "The items have changed since the last verdict.", class_="note")
        start(self._show_code())

    async def _show_code(self) -> None:
        drawn, out = self._drawn, self._out
        if drawn is None:
            return
        code = await in_thread(lambda: python_lines(self.explorer, drawn.settings))
        shell = await in_thread(lambda: command(self.explorer, drawn.settings, out))
        if drawn is self._drawn:
            self._set({PYTHON: {"value": code}, COMMAND: {"value": shell or ""}})

    def _on_message(self, message: Message) -> None:
        name = message["id"]
        if name == OUT:
            self._out = str(message.get("value") or default_output(self.explorer))
            self._set({SAVE: {"error": "", "hint": ""}})
            start(self._show_code())
        elif name == SAVE and self._drawn is not None:
            start(self._save(self._drawn))
        elif name == VERDICT and self._is_judging:
            self.close()
        elif name == VERDICT and self._drawn is not None:
            self._is_judging, self._is_cancelled = (
                True,
                False,
            )  # before the task runs, so that a double click starts only one
            start(self._judge(self._drawn))

    async def _save(self, drawn: Drawn) -> None:
        out = self._out
        self._set({SAVE: {"disabled": True, "error": "", "hint": "Saving…"}})
        try:
            summary = await in_thread(lambda: save(self.explorer, drawn.settings, out))
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
            html = await self._verdict(drawn)
        except Cancelled:
            pass
        except Exception as error:  # for example options that cannot be sent to another process
            html = tag("p", format_error(error), class_="note")
        finally:
            self._process, self._is_judging = None, False
            self._set({VERDICT: {"label": "Evaluate"}})
            self.verdict.object = html

    async def _verdict(self, drawn: Drawn) -> Html:
        synth = await in_thread(lambda: self.explorer.synthesizer(drawn.settings))
        if self._is_cancelled:
            raise Cancelled
        self._process = process = await in_thread(lambda: VerdictProcess(synth, drawn.settings.seed))
        if self._is_cancelled:
            process.cancel()
        return verdict_html(await in_thread(process.result))

    def close(self) -> None:
        """Cancel a running verdict."""
        self._is_cancelled = True
        if self._process is not None:
            self._process.cancel()

    def _set(self, changes: Mapping[str, Mapping[str, Plain]]) -> None:
        self._state[OUT] = {"value": self._out}
        self._state.update({name: dict(state) for name, state in changes.items()})
        apply(self._push)

    def _push(self) -> None:
        self.form.state = dict(self._state)


def _tool_fields(explorer: Explorer) -> list[Field]:
    command_field: list[Field] = [{"type": "code", "id": COMMAND, "label": "Command"}] if explorer.origin else []
    return [
        {"type": "section", "id": "code-section", "label": "Code"},
        {"type": "code", "id": PYTHON, "label": "Python"},
        *command_field,
        {"type": "section", "id": "save-section", "label": "Save and evaluate"},
        {"type": "text", "id": OUT, "label": "File, in the format of its extension"},
        {"type": "button", "id": SAVE, "label": "Save", "hint": ""},
        {"type": "button", "id": VERDICT, "label": "Evaluate", "hint": ABOUT_VERDICT},
    ]
