"""The command line application, built from the kinds of data that are registered when it starts."""

from __future__ import annotations

import logging
import shlex
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._backend.console import INTERRUPTED, MESSAGE, Progress
from .._version import __version__
from ..kinds.options import AUTO, KindDescription, option_fields
from ..kinds.registry import descriptions
from ..kinds.summary import Asked
from . import commands
from .commands import Request
from .messages import WRONG_USE, label_reading, one_line_errors, print_anywhere, print_to_stderr, working
from .options import GENERATOR, KindOptions, parameter

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
    """Open a live page on this machine to move from recall to generation, condition new examples, and save them."""
    from ..explorer import require_panel

    require_panel()
    request = ask()
    with working(label_reading(input)):
        synth = replace(request, asked=replace(request.asked, conditions=())).synthesizer()
        if request.asked.conditions:  # the page conditions; this checks them
            synth.kind.parse_condition(synth.codec, request.asked.conditions)
    with working("starting the page"):
        from ..explorer.server import Server
        from ..explorer.state import Explorer

        server = Server(Explorer(synth, _describe_origin(request, synth)), port, input.name)
    print(server.address, flush=True)
    print_to_stderr("The page is on this machine only. Stop it with Ctrl-C (the exit code is then 0).")
    server.run(open_browser=not no_browser)


def _describe_origin(request: Request, synth: Synthesizer) -> Origin:
    """Describe how the synthesizer was made, and which command a user would type for other choices."""
    from ..explorer.state import Origin

    kind = request.kind
    values = request.options.convert(kind, request.asked.options)
    reading = {name: value for name, value in values.items() if name in option_fields(kind.codec_options)}

    def command(asked: Asked, generator: str, n: int, seed: int, out: str) -> str:
        fit = synth.generator_fit
        trial = fit.trial is not None and fit.choice == fit.requested  # the trial then chooses the default again
        words = replace(request, asked=asked, generator=generator, trial=trial).words()
        return shlex.join(map(str, ["stochattn", "sample", request.source, "-n", n, *words, "--seed", seed, "-o", out]))

    return Origin(str(request.source), None if request.is_recognized else kind.name, reading, request.asked, command)


CONDITIONS = "Conditions"
TRIAL = "Test the generator on held-out examples first, and try other generators if they do not match. [--trial]"
NUMBERS = {"int_parsing": "an integer", "float_parsing": "a number"}
NUMBERS |= {"greater_than_equal": "{ge} or more", "less_than_equal": "{le} or less"}
"""What a valid value is, by the error type of pydantic, which checks types for typer."""


def _rename_former(token: str) -> str:
    """The present name of an option that had another one until version 0.2."""
    return {"colour": "color", "no-colour": "no-color"}.get(token, token)


def build_app() -> typer.Typer:
    """Build the application with the options, help and formats of every registered kind of data."""
    kinds = descriptions()
    options = KindOptions.of(kinds)
    inputs = ", ".join(kind.inputs for kind in kinds if kind.inputs)
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": _rename_former},
        help=f"Generate new examples from a handful of stored ones, without training. It reads {inputs}.",
    )
    app.callback(invoke_without_command=True)(_show_version)
    for command in (commands.sample, commands.inspect, commands.report, explore):
        lines = (f"    stochattn {command.__name__} {words}" for words in commands.EXAMPLES[command.__name__])
        epilog = "\n\n".join(["\nExamples:", *lines])
        app.command(epilog=epilog)(_add_options(command, kinds, options))
    app.command()(commands.demo)
    return app


def _show_note(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a UserWarning as a note; other categories are for programmers."""
    if issubclass(category, UserWarning):
        print_to_stderr(f"note: {' '.join(str(message).split())}")


def prepare() -> None:
    """Set up streams, warnings and logs of the process before the application is built."""
    print_anywhere()
    Progress.in_logs = True
    logging.getLogger().addHandler(logging.NullHandler())  # log messages of libraries are not for users
    warnings.showwarning = _show_note


def run(app: typer.Typer) -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop by a scheduler is treated like Ctrl-C
    try:
        code = app(prog_name="stochattn", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):  # before a command began
        print_to_stderr(f"error: {MESSAGE}")
        code = INTERRUPTED
    except Exception as error:  # wrong use that typer finds is one line, like every other error
        if not hasattr(error, "format_message"):
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "stochattn")
        if message := _describe_wrong_number(error) or " ".join(error.format_message().split()):
            print_to_stderr(f"error: {message} (See {command} --help.)")
        code = WRONG_USE
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done, and only the interpreter has to end
    raise SystemExit(code if isinstance(code, int) else 0)


def _describe_wrong_number(error: Exception) -> str:
    """Say what is wrong with a string that typer refuses as a number; empty for other errors."""
    names, errors = getattr(getattr(error, "param", None), "opts", None), getattr(error.__cause__, "errors", None)
    details = errors()[0] if names and errors else {}
    rule = NUMBERS.get(details.get("type", ""), "").format(**details.get("ctx", {}))
    return f"{names[-1]} must be {rule}; got {details['input']!r}." if names and rule else ""


def _show_version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if show:
        print(f"stochattn {__version__}")
        raise typer.Exit


def _add_options(
    command: Callable[..., None], kinds: Sequence[KindDescription], options: KindOptions
) -> Callable[..., None]:
    """Add the options about the input to a command, which gets `Request.of` with their values as `ask`."""
    command_parameters = signature(command, eval_str=True).parameters.values()
    inputs = "; ".join(kind.inputs for kind in kinds if kind.inputs)
    input_argument = typer.Argument(metavar="INPUT", help=f"The stored examples: {inputs}.", show_default=False)
    shared = _list_shared(kinds, draws=command is not commands.inspect)
    from_kinds, reword = [option.parameter for option in options.options], options.reword
    parameters = [
        Parameter("input", Parameter.KEYWORD_ONLY, annotation=Annotated[Path, input_argument]),
        *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in command_parameters if p.name not in ("input", "ask")),
        *shared,
        *from_kinds,
    ]

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        kind_values = {p.name: arguments.pop(p.name) for p in from_kinds}
        kind_values = {name: value for name, value in kind_values.items() if value not in (None, [], ())}
        shared_values = {p.name: arguments.pop(p.name) for p in shared}
        with one_line_errors(reword):
            command(**arguments, ask=partial(Request.of, options, arguments["input"], kind_values, **shared_values))

    with_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def _list_shared(kinds: Sequence[KindDescription], *, draws: bool) -> list[Parameter]:
    """List the option of the kind of data and, if `draws`, those of the draws: keywords of `Request.of`."""
    kind = f"Kind of data: {', '.join(kind.name for kind in kinds)}. [recognized from INPUT]"
    kind_option = parameter("kind", str | None, "--kind", kind, "NAME", None)
    if not draws:
        return [kind_option]
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
    strings = list[str] | None
    return [
        kind_option,
        parameter("conditions", strings, "--condition", condition, "NAME=VALUE", CONDITIONS),
        parameter("subset", strings, "--subset", subset, "SELECTION", CONDITIONS),
        parameter("weight", strings, "--weight", weight, "SELECTION:RATIO", CONDITIONS),
        parameter("generator", str | None, "--generator", generator, "NAME", GENERATOR),
        parameter("trial", bool | None, "--trial/--no-trial", TRIAL, None, GENERATOR),
    ]
