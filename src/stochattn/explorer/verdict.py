"""The verdict of split-half validation and privacy on what a page shows, in a process of its own that can be ended."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import NamedTuple

from .._backend.html import Html, joined, number, tag
from .._backend.state import Plain
from ..synthesizer import Synthesizer

N_JUDGED = 300
PARENT_SECONDS = 0.5
"""How often a verdict process looks whether its parent is still there."""
SIGNS = {True: ("✓", "good", "passed"), False: ("✗", "bad", "failed"), None: ("·", "open", "not checked")}


class Judged(NamedTuple):
    """A verdict: headline, tone (good, fair or bad), advice, its findings with whether they passed, and an AUC."""

    headline: str
    tone: str
    advice: str
    findings: tuple[tuple[str, bool | None], ...]
    membership_auc: float | None


class Cancelled(Exception):
    """The user ended the work."""


class VerdictProcess:
    """A verdict on n draws of a synthesizer in another process: pages stay live, and `cancel` ends it at once."""

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

    def result(self) -> Judged:
        """The verdict; it waits. ValueError if the process fails, `Cancelled` if it was ended."""
        try:
            out, error = self._process.communicate(self._payload)
        finally:
            _live.discard(self)
        if self._cancelled:
            raise Cancelled
        if self._process.returncode:
            last = (error.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"the verdict failed: {last}")
        found = json.loads(out)
        return Judged(**{**found, "findings": tuple((str(a), b) for a, b in found["findings"])})

    def cancel(self) -> None:
        """End the process, and those that it has started."""
        self._cancelled = True
        _live.discard(self)
        if self._process.poll() is not None:
            return
        if sys.platform == "win32":
            self._process.terminate()
        else:
            with suppress(ProcessLookupError, PermissionError):  # it has ended in the meantime
                os.killpg(self._process.pid, signal.SIGTERM)


_live: set[VerdictProcess] = set()  # not waited for to the end yet


@atexit.register
def cancel_all() -> None:
    """End all verdicts that are under way, which would otherwise outlive this program."""
    for process in tuple(_live):
        process.cancel()


def judge(synth: Synthesizer, n: int, seed: int) -> Judged:
    """The quick verdict of a report on n draws."""
    from ..evaluation import as_evaluated
    from ..report import measure, verdict_on

    synth = as_evaluated(synth)
    evidence = measure(synth, synth.sample_items(n, seed), seed, progress=False, quick=True)
    found, auc = verdict_on(evidence), evidence.split_half.membership_auc
    findings = tuple((check.finding, check.passed) for check in found.checks if check.finding)
    return Judged(found.headline, str(found.tone), found.advice, findings, auc if auc == auc else None)


def main(parent: int) -> None:
    """Read a synthesizer from standard input, and print its verdict as json; end with the process `parent`."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # pages come first
    synth, n, seed = pickle.loads(sys.stdin.buffer.read())
    found = judge(synth, n, seed)
    passed: list[Plain] = [[finding, None if one is None else bool(one)] for finding, one in found.findings]
    print(json.dumps({**found._asdict(), "findings": passed}))


def _end_with(parent: int) -> None:
    """Wait for the end of the parent, which may be killed and then ends nothing itself; then end this group."""
    if sys.platform == "win32":  # a process keeps the number of its parent there
        return
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os.killpg(0, signal.SIGTERM)


def verdict_html(found: Judged) -> Html:
    """The verdict as a box, as in a report."""
    lines = []
    for finding, passed in found.findings:
        sign, tone, spoken = SIGNS[passed]
        mark = tag("span", sign, class_=f"sign {tone}", aria_label=spoken, role="img")
        lines.append(tag("li", mark, tag("span", finding)))
    auc = tag("p", f"AUC of membership inference {number(found.membership_auc, 2)}; 0.5 is chance.", class_="note")
    inside = [tag("strong", found.headline, class_="headline"), tag("span", found.advice), tag("ul", *lines), auc]
    return tag("div", joined(inside), class_=f"verdict {found.tone}", role="status")
