"""The command line application, built from the kinds of data that are registered when it starts."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from .._version import __version__
from ..data.registry import all_kinds
from . import commands, reporting
from .kind_options import KindOptions
from .messages import WRONG_USE, one_line_errors, say
from .options import as_command
from .plugins import register_plugins

ABOUT = "Generate new examples from a handful of stored ones, without training."


def build_app() -> typer.Typer:
    """The application: every registered kind of data has its options, help texts and formats in it."""
    register_plugins()
    kinds = all_kinds()
    options = KindOptions.of(kinds)
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"{ABOUT} It reads {', '.join(kind.inputs for kind in kinds if kind.inputs)}.",
    )
    app.callback(invoke_without_command=True)(_version)
    app.command("sample", epilog=commands.SAMPLE_EXAMPLES)(as_command(commands.sample, kinds, options))
    app.command("inspect", epilog=commands.INSPECT_EXAMPLES)(as_command(commands.inspect, kinds, options, draws=False))
    app.command("report", epilog=commands.REPORT_EXAMPLES)(as_command(commands.report, kinds, options))

    @app.command()
    def demo(
        out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the results.")] = Path("out/demo"),
    ) -> None:
        """Generate new handwritten digits from 300 stored ones, and write their report."""
        with one_line_errors():
            reporting.demonstrate(options, out)

    return app


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler's stop is treated like Ctrl-C
    try:
        code = build_app()(prog_name="stochattn", standalone_mode=False)
    except Exception as error:  # wrong use that typer itself finds: one line, like every other
        if not hasattr(error, "format_message"):
            raise
        about = getattr(getattr(error, "ctx", None), "command_path", "stochattn")
        said = " ".join(error.format_message().split())
        if said:
            say(f"error: {said} (See {about} --help.)")
        code = WRONG_USE
    raise SystemExit(code if isinstance(code, int) else 0)


def _version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if show:
        print(f"stochattn {__version__}")
        raise typer.Exit
