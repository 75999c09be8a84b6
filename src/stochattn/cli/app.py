"""The command line application, built from the kinds of data that are registered when it starts.

The command explore: a live page on this machine.
"""

from __future__ import annotations

import logging
import shlex
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace as replaced
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._backend.console import Progress
from .._backend.interruption import INTERRUPTED, MESSAGE
from .._version import __version__
from ..kinds.description import AUTO, KindDescription
from ..kinds.options import option_fields
from ..kinds.registry import descriptions
from ..kinds.summary import Asked
from . import commands
from .commands import Request
from .messages import WRONG_USE, one_line_errors, print_anywhere, print_to_stderr, working
from .options import GENERATOR, KindOptions, Wording, parameter

if TYPE_CHECKING:
    from ..explorer.state import Origin
    from ..synthesizer.synthesizer import Synthesizer


PORT = "Port on which the page is served, on this machine only. [any that is free]"
NO_BROWSER = "Print the address of the page, and do not open a browser."


def explore(
    input: Path,
    ask: Callable[..., Request],
    port: Annotated[int, typer.Option(min=0, max=65535, help=PORT, show_default=False)] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help=NO_BROWSER)] = False,
) -> None:
    """Open a live page on this machine: turn from recall to generation, condition new examples, and save them."""
    from ..explorer import require_panel

    require_panel()
    request = ask()
    with working(f"reading {input}"):
        without = replaced(request, asked=replaced(request.asked, conditions=()))
        synth = without.synthesizer()
        synth.kind.parse_condition(synth.codec, request.asked.conditions) if request.asked.conditions else None
    with working("starting the page"):
        from ..explorer.server import Server
        from ..explorer.state import Explorer

        server = Server(Explorer(synth, _origin(request, synth)), port, input.name)

    def ready(address: str) -> None:
        print(address, flush=True)
        print_to_stderr("The page is on this machine only. Stop it with Ctrl-C (the exit code is then 0).")

    server.run(ready, open_browser=not no_browser)


def _origin(request: Request, synth: Synthesizer) -> Origin:
    """How the synthesizer of a request was made, and the command that a user would type for other choices."""
    from ..explorer.state import Origin

    kind = request.kind
    values = request.options.values(kind, request.asked.options)
    reading = {name: value for name, value in values.items() if name in option_fields(kind.codec_options)}

    def command(asked: Asked, generator: str, n: int, seed: int, out: str) -> str:
        fit = synth.generator_fit
        trial = fit.trial is not None and fit.choice == fit.requested  # which then chooses the default again
        words = replaced(request, asked=asked, generator=generator, trial=trial).words()
        return shlex.join(map(str, ["stochattn", "sample", request.source, "-n", n, *words, "--seed", seed, "-o", out]))

    return Origin(str(request.source), None if request.recognised else kind.name, reading, request.asked, command)


CONDITIONS = "Conditions"
TRIAL = "Test the generator on held-out examples first, and try others if its examples differ from them. [--trial]"
NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}
NUMBERS |= {"greater_than_equal": "{ge} or more", "less_than_equal": "{le} or less"}
"""Errors of the library that checks types for typer, and what it wants."""


def build_app() -> typer.Typer:
    """The application: every registered kind of data has its options, help texts and formats in it."""
    kinds = descriptions()
    options = KindOptions.of(kinds)
    inputs = ", ".join(kind.inputs for kind in kinds if kind.inputs)
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"Generate new examples from a handful of stored ones, without training. It reads {inputs}.",
    )
    app.callback(invoke_without_command=True)(_version)
    for command in (commands.sample, commands.inspect, commands.report):
        app.command(epilog=_epilog(command.__name__))(_with_shared(command, kinds, options))
    app.command(epilog=_epilog("explore"))(_with_shared(explore, kinds, options))
    app.command()(commands.demo)
    return app


def _epilog(name: str) -> str:
    lines = (f"    stochattn {name} {words}" for words in commands.EXAMPLES[name])
    return "\n\n".join(["\nExamples:", *lines])


def _show_note(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a warning for users as a note; those of other libraries have other categories, and are for programmers."""
    if issubclass(category, UserWarning):
        print_to_stderr(f"note: {' '.join(str(message).split())}")


def prepare() -> None:
    """Set up what the whole process needs before it builds the application: streams, warnings, logs."""
    print_anywhere()
    Progress.in_logs = True
    logging.getLogger().addHandler(logging.NullHandler())  # what libraries log is not for the user of a command
    warnings.showwarning = _show_note


def run(app: typer.Typer) -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler's stop is treated like Ctrl-C
    try:
        code = app(prog_name="stochattn", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):  # before a command began
        print_to_stderr(f"error: {MESSAGE}")
        code = INTERRUPTED
    except Exception as error:  # wrong use that typer itself finds: one line, like every other
        if not hasattr(error, "format_message"):
            raise
        about = getattr(getattr(error, "ctx", None), "command_path", "stochattn")
        if said := _wrong_number(error) or " ".join(error.format_message().split()):
            print_to_stderr(f"error: {said} (See {about} --help.)")
        code = WRONG_USE
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done, and only the interpreter is left to end
    raise SystemExit(code if isinstance(code, int) else 0)


def _wrong_number(error: Exception) -> str:
    """What is wrong with a text that typer refuses as a number, in the words of this package; else empty."""
    names, errors = getattr(getattr(error, "param", None), "opts", None), getattr(error.__cause__, "errors", None)
    found = errors()[0] if names and errors else {}
    wanted = NUMBERS.get(found.get("type", ""), "").format(**found.get("ctx", {}))
    return f"{names[-1]} must be {wanted}; got {found['input']!r}." if names and wanted else ""


def _version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if show:
        print(f"stochattn {__version__}")
        raise typer.Exit


def _with_shared(
    command: Callable[..., None], kinds: Sequence[KindDescription], options: KindOptions
) -> Callable[..., None]:
    """A command with the options about its input: as `ask` it receives `Request.of` with what was given for them."""
    own = signature(command, eval_str=True).parameters
    accepted = "; ".join(kind.inputs for kind in kinds if kind.inputs)
    about = typer.Argument(metavar="INPUT", help=f"The stored examples: {accepted}.", show_default=False)
    shared = _shared(kinds, draws=command is not commands.inspect)
    declared, as_typed = [one.parameter for one in options.options], Wording.of(options).as_typed
    parameters = [
        Parameter("input", Parameter.KEYWORD_ONLY, annotation=Annotated[Path, about]),
        *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own.values() if one.name not in ("input", "ask")),
        *shared,
        *declared,
    ]

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {one.name: arguments.pop(one.name) for one in declared}
        given = {name: value for name, value in given.items() if value not in (None, [], ())}
        chosen = {one.name: arguments.pop(one.name) for one in shared}
        with one_line_errors(as_typed):
            command(**arguments, ask=partial(Request.of, options, arguments["input"], given, **chosen))

    with_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def _shared(kinds: Sequence[KindDescription], *, draws: bool) -> list[Parameter]:
    """The option about the kind of data and, if `draws`, those about what is drawn: keywords of `Request.of`."""
    kind = f"Kind of data: {', '.join(kind.name for kind in kinds)}. [recognised from INPUT]"
    about_kind = parameter("kind", str | None, "--kind", kind, "NAME", None)
    if not draws:
        return [about_kind]
    names = ", ".join(dict.fromkeys([AUTO, *(name for kind in kinds for name in kind.generators)]))
    defaults = ", ".join(f"{next(iter(kind.generators))} for {kind.name} data" for kind in kinds)
    generator = (
        f"How examples are generated: {names}. auto is the generator made for the kind of data ({defaults}), or a "
        "better one if --trial finds it; an option that only another generator has, such as --beta, chooses it. [auto]"
    )
    conditions = "; ".join(kind.condition_help for kind in kinds if kind.condition_help)
    condition = f"Generate given this value: {conditions}. May be repeated."
    selection = "SELECTION is a file of ids, NAME=VALUE, a class, an id, or a regular expression that matches ids."
    subset = f"Generate from these stored examples only. {selection} May be repeated."
    weight = "Let these stored examples count RATIO times as often. May be repeated."
    several = list[str] | None
    return [
        about_kind,
        parameter("conditions", several, "--condition", condition, "NAME=VALUE", CONDITIONS),
        parameter("subset", several, "--subset", subset, "SELECTION", CONDITIONS),
        parameter("weight", several, "--weight", weight, "SELECTION:RATIO", CONDITIONS),
        parameter("generator", str | None, "--generator", generator, "NAME", GENERATOR),
        parameter("trial", bool | None, "--trial/--no-trial", TRIAL, None, GENERATOR),
    ]
