"""The options that commands share: about the input, its kind of data, its generator and conditions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.kind import AUTO, AnyKind
from .kind_options import GENERATOR, KindOptions
from .request import Choices

CONDITIONS = "Conditions"
SELECTION = "SELECTION is a file of ids, NAME=VALUE, a class, or a regular expression that matches ids."


def as_command(
    command: Callable[..., None], kinds: Sequence[AnyKind], options: KindOptions, *, draws: bool = True
) -> Callable[..., None]:
    """A command with the shared options: it receives them as `input`, `options` and `choices`.

    draws: whether it has those about generator, conditions, subset and weights
    """
    own = inspect.signature(command, eval_str=True).parameters
    supplied = ("input", "options", "choices")
    shared = [_kind(kinds), *([*_conditions(kinds), _generator(kinds)] if draws else [])]
    declared = options.parameters
    parameters = [
        _parameter("input", Path, inspect.Parameter.empty, _input(kinds)),
        *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.values() if one.name not in supplied),
        *shared,
        *declared,
    ]

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {one.name: arguments.pop(one.name) for one in declared}
        chosen = {one.name: arguments.pop(one.name) for one in shared}
        choices = Choices(
            chosen.get("kind"),
            chosen.get("generator", AUTO),
            tuple(chosen.get("conditions") or ()),
            tuple(chosen.get("subset") or ()),
            tuple(chosen.get("weight") or ()),
            {name: value for name, value in given.items() if value not in (None, [], ())},
        )
        command(**arguments, options=options, choices=choices)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def _parameter(name: str, type_: object, default: object, about: object) -> inspect.Parameter:
    annotation = Annotated[type_, about]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _input(kinds: Sequence[AnyKind]) -> object:
    accepted = "; ".join(kind.inputs for kind in kinds if kind.inputs)
    return typer.Argument(metavar="INPUT", help=f"The stored examples: {accepted}.", show_default=False)


def _kind(kinds: Sequence[AnyKind]) -> inspect.Parameter:
    names = ", ".join(kind.name for kind in kinds)
    about = typer.Option(
        "--kind", metavar="NAME", help=f"Kind of data: {names}. [recognised from INPUT]", show_default=False
    )
    return _parameter("kind", str | None, None, about)


def _generator(kinds: Sequence[AnyKind]) -> inspect.Parameter:
    names = list(dict.fromkeys(name for kind in kinds for name in kind.generators))
    defaults = ", ".join(f"{next(iter(kind.generators))} for {kind.name} data" for kind in kinds)
    about = typer.Option(
        "--generator",
        metavar="NAME",
        help=f"How examples are generated: {', '.join([AUTO, *names])}. auto is the generator made for the kind of "
        f"data ({defaults}); an option that only another generator has, such as --beta, chooses that one. [auto]",
        rich_help_panel=GENERATOR,
        show_default=False,
    )
    return _parameter("generator", str, AUTO, about)


def _conditions(kinds: Sequence[AnyKind]) -> list[inspect.Parameter]:
    examples = "; ".join(kind.condition_help for kind in kinds if kind.condition_help)
    said = {
        "conditions": ("--condition", "NAME=VALUE", f"Generate given this value: {examples}."),
        "subset": ("--subset", "SELECTION", f"Generate from these stored examples only. {SELECTION}"),
        "weight": ("--weight", "SELECTION:RATIO", "Let these stored examples count RATIO times as often."),
    }
    return [
        _parameter(
            name,
            list[str] | None,
            None,
            typer.Option(
                flag,
                metavar=metavar,
                help=f"{text} May be repeated.",
                rich_help_panel=CONDITIONS,
                show_default=False,
            ),
        )
        for name, (flag, metavar, text) in said.items()
    ]
