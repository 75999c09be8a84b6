"""The command explore: a live page on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..data.options import option_fields
from ..data.summary import Asked
from .messages import print_to_stderr, working
from .request import Request

if TYPE_CHECKING:
    from ..explorer.state import Origin

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

        server = Server(Explorer(synth, _origin(request)), port, input.name)

    def ready(address: str) -> None:
        print(address, flush=True)
        print_to_stderr(
            "The page is on this machine only. Stop it with Ctrl-C, which is the usual end: the exit code is 0."
        )

    server.run(ready, open_browser=not no_browser)


def _origin(request: Request) -> Origin:
    """How the synthesizer of a request was made, and the command that a user would type for other choices."""
    from ..explorer.state import Origin

    kind = request.kind
    values = request.options.values(kind, request.asked.options)
    reading = {name: value for name, value in values.items() if name in option_fields(kind.codec_options)}

    def command(asked: Asked, generator: str, n: int, seed: int, out: str) -> str:
        words = replaced(request, asked=asked, generator=generator).words()
        return shlex.join(map(str, ["stochattn", "sample", request.source, "-n", n, *words, "--seed", seed, "-o", out]))

    return Origin(str(request.source), None if request.recognised else kind.name, reading, request.asked, command)
