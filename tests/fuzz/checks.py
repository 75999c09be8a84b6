"""What must not come out of the library, whatever goes in: anything but its own one-line errors."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

import stochattn
from stochattn.cli import app, commands
from stochattn.kinds.registry import kind_for

from .files import InputFile

APP = functools.cache(app.build_app)  # building it takes longer than most commands
PACKAGE = str(Path(stochattn.__file__).parent)
COMMANDS = (("sample", "-n", "3"), ("inspect",), ("sample", "-n", "2", "--beta", "5"), ("inspect", "--json"))
OUTPUTS = {"protein": "new.fasta", "image": "new.npz", "table": "new.csv", "returns": "new.csv", "signals": "new.ts"}


def place(file: InputFile, folder: Path) -> Path:
    """Write the file, or the folder of files; its path."""
    path = folder / file.name
    if isinstance(file.content, bytes):
        path.write_bytes(file.content)
    else:
        path.mkdir()
        for name, content in file.content.items():
            (path / name).write_bytes(content)
    return path


def problem_of_path(path: Path, command: tuple[str, ...], folder: Path) -> str | None:
    """What is wrong with the way a command ends; None if it works or says why not. `folder` is for the output."""
    words = [command[0], str(path), *command[1:]]
    if command[0] == "sample":
        try:
            with warnings.catch_warnings(action="ignore"):
                kind = kind_for(path).name
        except Exception:  # the command says so
            kind = "table"
        words += ["-o", str(folder / OUTPUTS[kind])]
    return _problem_of_command(words)


def problem_of_array(array: np.ndarray) -> str | None:
    """What is wrong with draws around the rows of an array."""

    def draw() -> None:
        new = stochattn.StochasticAttention(array).sample(3, rng=0)
        if not np.isfinite(np.asarray(new)).all():
            raise AssertionError("a draw is not finite")

    with _warnings() as leaked:
        try:
            draw()
        except Exception as error:
            return _problem_of_error(error)
    return leaked[0] if leaked else None


class Ended(NamedTuple):
    """How a command ended: its exit code, what it printed, the errors inside it and the warnings of other libraries."""

    code: object
    stdout: str
    stderr: str
    errors: list[BaseException]
    leaked: list[str]


def run_command(words: list[str]) -> Ended:
    """Run the entry of the command line in this process, with its output captured."""
    caught: list[BaseException] = []
    code: object = 0
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(sys, argv=["stochattn", *words], **streams))
        for module in (app, commands):
            stack.enter_context(mock.patch.object(module, "one_line_errors", _noting(module.one_line_errors, caught)))
        for name in ("signal", "warnings"):  # what `run` sets for a whole process
            stack.enter_context(mock.patch.object(app, name, mock.MagicMock(spec=getattr(app, name))))
        leaked = stack.enter_context(_warnings())
        try:
            app.run(APP())
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            caught.append(error)
    for stream in streams.values():
        stream.flush()
    printed = {name: stream.buffer.getvalue().decode() for name, stream in streams.items()}
    return Ended(code, errors=caught, leaked=leaked, **printed)


def _problem_of_command(words: list[str]) -> str | None:
    ended = run_command(words)
    problems = filter(None, map(_problem_of_error, ended.errors))
    if (problem := next(problems, None)) is not None:
        return problem
    if ended.code not in (0, 1, 2):
        return f"exit code {ended.code}"
    if ended.code and not re.fullmatch(r"(note: .*\n)*error: .*\n", ended.stderr):
        return f"not one line of error: {ended.stderr[-300:]!r}"
    return ended.leaked[0] if ended.leaked else None


def _noting(original: Callable[..., contextlib.AbstractContextManager], caught: list) -> Callable:
    @contextlib.contextmanager
    def noting(*args: object) -> Iterator[None]:
        with original(*args):
            try:
                yield
            except BaseException as error:
                caught.append(error)
                raise

    return noting


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect warnings of other libraries."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        yield texts
    own = (UserWarning, RuntimeWarning)
    texts += [
        f"leaked warning: {one.category.__name__} at {_short(one.filename)}:{one.lineno}: {one.message}"
        for one in leaked
        if not (one.category in own and _is_own_text(str(one.message)))
    ]


def _is_own_text(message: str) -> bool:
    return message.startswith(("p_beta weights", "the plug-in", "interrupted"))


def _problem_of_error(error: BaseException) -> str | None:
    """None for an error that the library raised on purpose, in one line."""
    if isinstance(error, SystemExit) or type(error).__module__.startswith(("typer", "click")):
        return None
    frame = traceback.extract_tb(error.__traceback__)[-1]
    own = frame.filename.startswith(PACKAGE)
    if isinstance(error, OSError) and error.strerror:
        return None
    if isinstance(error, ValueError | TypeError) and own and len(str(error).splitlines()) == 1:
        return None
    inner = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(PACKAGE)]
    via = f"{_short(inner[-1].filename)}:{inner[-1].lineno} ({inner[-1].name})" if inner else "outside"
    return f"{type(error).__name__} at {via} from {_short(frame.filename)}: {' '.join(str(error).split())[:200]}"


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2].rpartition("src/")[2]
