"""Options that commands share, and how reading options reach a codec."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.legacy import Codec, InputError
from ..data.legacy_registry import codec_class, looks_dated, read, recognise

TEMPERATURE, CONDITIONS, READING = "Temperature", "Conditions", "Reading"
PROTEINS, PICTURES, TABLES, RETURNS = "Proteins", "Pictures", "Tables", "Returns"

Input = Annotated[
    Path,
    typer.Argument(help="An alignment, a folder or .npz of pictures, a table, or a price history.", metavar="INPUT"),
]
Beta = Annotated[
    float | None, typer.Option(help="Inverse temperature: large recalls, small explores.", rich_help_panel=TEMPERATURE)
]
Novelty = Annotated[
    float | None,
    typer.Option(
        help="Mean novelty of draws: 1 − cosine to the nearest stored row. Small recalls.", rich_help_panel=TEMPERATURE
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        help="How to choose beta: natural (as far from the stored as these are from each other), inflection, knee, "
        "leave-one-out. [natural]",
        show_default=False,
        rich_help_panel=TEMPERATURE,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="native: the sampler made for this kind of data (pictures, proteins, tables). paper: p_beta, which every "
        "option about beta, novelty or rows asks for. [native]",
        rich_help_panel=TEMPERATURE,
        show_default=False,
    ),
]
Sampler = Annotated[
    str | None,
    typer.Option(
        help="exact, or the paper's chains: ula, mala. [exact]", rich_help_panel=TEMPERATURE, show_default=False
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Same input, options, seed and version: the same bytes.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Draw around these alone: a file of ids, column=value, a class, or a regular expression for ids. "
        "May be repeated.",
        rich_help_panel=CONDITIONS,
        metavar="SELECTION",
    ),
]
Weight = Annotated[
    list[str] | None,
    typer.Option(
        help="Let these count RATIO times. May be repeated.", rich_help_panel=CONDITIONS, metavar="SELECTION:RATIO"
    ),
]
Fix = Annotated[
    list[str] | None,
    typer.Option(
        help="Hold a value and draw the rest given it: residue 12=W, column age=40, ticker SPY=-0.05 (its first day; "
        "SPY@3=-0.05 its third). May be repeated.",
        rich_help_panel=CONDITIONS,
        metavar="NAME=VALUE",
    ),
]


def _option(name: str, kind: Any, help: str, panel: str, **more: Any) -> tuple[Any, str, str]:
    return (
        Annotated[kind, typer.Option(name, help=help, rich_help_panel=panel, show_default=False, **more)],
        name,
        panel,
    )


READING_OPTIONS: dict[str, tuple[Any, str, str]] = {
    "as_": _option("--as", str | None, "Kind of data: protein, image, table, returns, prices. [recognised]", READING),
    "variance": _option("--variance", float | None, "Share of variance that principal components keep.", READING),
    "whiten": _option(
        "--whiten/--no-whiten", bool | None, "Let noise follow the data's own directions (shrunk covariance).", READING
    ),
    "norm": _option(
        "--norm",
        str | None,
        "restored: unit rows, lengths put back. paper: lengths lost, as published. whole: rows keep their lengths.",
        READING,
    ),
    "gaps": _option("--gaps", str | None, "Gaps as zeros (the paper's way) or as a 21st symbol. [zeros]", PROTEINS),
    "temperature": _option(
        "--decode-temperature",
        float | None,
        "Draw residues from softmax(channels/T); 0.1 is mild. [the likeliest]",
        PROTEINS,
    ),
    "max_column_gaps": _option("--max-column-gaps", float | None, "Drop columns with more gaps. [0.5]", PROTEINS),
    "max_sequence_gaps": _option("--max-sequence-gaps", float | None, "Drop sequences with more. [0.3]", PROTEINS),
    "size": _option("--size", str | None, "Bring pictures to this size. [the commonest]", PICTURES, metavar="WxH"),
    "colour": _option("--colour/--no-colour", bool | None, "Read pictures in colour or grey. [as they are]", PICTURES),
    "centre": _option(
        "--centre/--no-centre", bool | None, "Draw around the mean picture; --no-centre as in the paper.", PICTURES
    ),
    "warp": _option(
        "--warp", float | None, "Bend new pictures by about so many pixels; 0 for none. [1 if few]", PICTURES, min=0.0
    ),
    "columns": _option(
        "--column",
        list[str] | None,
        "Kind of a column: numeric, integer, boolean, category, date, id, carried, drop. May be repeated.",
        TABLES,
        metavar="NAME=KIND",
    ),
    "ranges": _option(
        "--range", list[str] | None, "Limits of a column. May be repeated.", TABLES, metavar="NAME=LOW:HIGH"
    ),
    "missing": _option("--missing", str | None, "keep: missing as in the data. impute: complete rows. [keep]", TABLES),
    "label": _option("--label", str | None, "The column that holds classes.", TABLES),
    "window": _option(
        "--window",
        int | None,
        "Days of a stored example. [60, fewer in a short history; 1 in mode projection]",
        RETURNS,
        min=1,
    ),
    "mode": _option(
        "--mode", str | None, "exact, or projection: the paper's, which replays stored days. [exact]", RETURNS
    ),
    "marginals": _option(
        "--marginals", str | None, "calibrated to each ticker's history, or free. [calibrated]", RETURNS
    ),
    "output": _option("--output", str | None, "Write returns, or prices: paths from the last. [returns]", RETURNS),
}
ABOUT_ROWS = ("variance", "whiten", "norm", "gaps", "temperature", "centre")
KIND_OF_PANEL = {PROTEINS: ("protein",), PICTURES: ("image",), TABLES: ("table",), RETURNS: ("returns", "prices")}


def reads_input(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all reading options; it receives those that were given as `reading`, a dictionary."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "reading"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, (annotation, _, _) in READING_OPTIONS.items()
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        reading = {name: given.pop(name) for name in READING_OPTIONS}
        command(**given, reading={name: value for name, value in reading.items() if value not in (None, [])})

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def target_of(asked: str | None, how: dict[str, Any], reading: dict[str, Any]) -> str:
    """The target that options ask for: p_beta as soon as one of them is about its temperature or its rows."""
    rows = [READING_OPTIONS[name][1] for name in ABOUT_ROWS if name in reading]
    about = [f"--{name}" for name in how if name != "target"] + rows
    if asked == "native" and rows:
        raise InputError(f"{rows[0]} is about the rows that p_beta has: leave it out, or pass --target paper.")
    return asked or ("paper" if about else "native")


def kind_of(path: Path, reading: dict[str, Any]) -> type[Codec]:
    """The kind of codec that an input will get, before it is read."""
    kind: type[Codec] = codec_class(reading.get("as_") or recognise(path))
    return kind


def codec_of(path: Path, reading: dict[str, Any]) -> Codec:
    """The codec of an input with the options given."""
    reading = dict(reading)
    asked = reading.pop("as_", None)
    kind = asked or recognise(path)
    for name in reading:
        _, option, panel = READING_OPTIONS[name]
        if panel in KIND_OF_PANEL and kind not in KIND_OF_PANEL[panel]:
            raise InputError(
                f"{option} is for {panel.lower()}, and {path} is read as {kind}: leave it out, or see --as."
            )
    if "columns" in reading:
        reading["columns"] = dict(_pair(text, "--column", "age=integer") for text in reading["columns"])
    if "ranges" in reading:
        reading["ranges"] = dict(_limits(text) for text in reading["ranges"])
    codec = read(path, kind, **reading)
    if asked is None and kind == "table" and looks_dated(path):
        meant = "read as a table, whose rows are drawn each for itself. If it is a price history, pass --as prices."
        codec.notes = (*codec.notes, meant)
    return codec


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        raise InputError(f"{option} {text!r} must be a name and a value, such as {example}.")
    return name, value


def _limits(text: str) -> tuple[str, tuple[float | None, float | None]]:
    name, value = _pair(text, "--range", "age=0:120")
    low, colon, high = value.partition(":")
    try:
        limits = (float(low) if low else None, float(high) if high else None)
    except ValueError:
        colon = ""
    if not colon:
        raise InputError(f"--range {text!r} must be a name and limits, such as age=0:120 or price=0:.")
    return name, limits
