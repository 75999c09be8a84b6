"""Explorers as the command makes them, from the small inputs of the other tests."""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import made_items
from stochattn.cli.app import _describe_origin
from stochattn.cli.commands import Request
from stochattn.cli.options import KindOptions
from stochattn.explorer.state import Explorer
from stochattn.kinds.registry import kind_names, kind_of

__all__ = ["CONDITIONS", "KINDS", "explorer_of", "made_items"]
KINDS = ("protein", "image", "table", "returns", "signals")
CONDITIONS = {
    "protein": "2={letter}",
    "image": "1:2,1:10=lying/0.png",
    "table": "30<=age<=50",
    "returns": "T1@2=-0.01",
    "signals": "1:10=3",
}


def explorer_of(path, **given):
    """The explorer of a file, as the command makes it."""
    options = KindOptions.of([kind_of(name) for name in kind_names()])
    by_flag = {one.flag: one.name for one in options.options}
    shared = {
        name: given.pop(name) for name in ("kind", "generator", "conditions", "subset", "weight") if name in given
    }
    ask = partial(Request.of, options, path, {by_flag[f"--{name}"]: value for name, value in given.items()})
    request = ask(**shared)
    synth = request.synthesizer()
    return Explorer(synth, _describe_origin(request, synth))
