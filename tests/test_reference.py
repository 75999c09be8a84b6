"""The reference of the site: every public name has a docstring with shapes and an example, and stands on a page.

The examples are doctests, which pytest runs with the tests (`--doctest-modules`).
"""

import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import stochattn

API = Path(__file__).parent.parent / "docs" / "api"
MODULES = (
    *("stochattn", "stochattn.bounds", "stochattn.conditioning", "stochattn.energy", "stochattn.metrics"),
    *("stochattn.multihead", "stochattn.neighbors", "stochattn.temperature", "stochattn.samplers", "stochattn.nn"),
    *("stochattn.sklearn", "stochattn.kinds", "stochattn.evaluation"),
)
SHAPE = re.compile(r"\((?:\.\.\.|\*?\w+), *[^()]*\)|\(\.\.\.\)|\(\w+,\)")
"""A shape such as (K, d), (..., d), (n,) or (*B, K, d)."""


def module_of(name):
    """A public module; some are attributes of the package, whose files lie deeper."""
    inner = name.removeprefix("stochattn.")
    return getattr(stochattn, inner) if inner in stochattn.__all__ else import_module(name)


def public_things():
    """(name, object) of every public function and class, under each name by which it is public."""
    for module in MODULES:
        found = module_of(module)
        for name in found.__all__:
            thing = getattr(found, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield f"{module}.{name}", thing


THINGS = dict(public_things())


def lacks(thing):
    """What the docstring of a function or class lacks, a word each."""
    text = thing.__doc__ or ""
    if not text.strip() or text == dict.__doc__:
        return ["docstring"]
    wrong = [] if ">>> " in text else ["example"]
    return wrong + (["shapes"] if takes_arrays(thing) and not SHAPE.search(text + field_comments(thing)) else [])


def takes_arrays(thing):
    """Whether an argument, a field or the result is an array."""
    about = [thing.__annotations__ if inspect.isfunction(thing) else getattr(thing.__init__, "__annotations__", {})]
    if dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        about.append(inspect.get_annotations(thing))
    return any(re.search(r"\b(Array|ArrayLike|NumpyArray|Tensor)\b", str(a)) for one in about for a in one.values())


def field_comments(thing):
    """The comments beside the fields of a class, which may have their shapes."""
    return "".join(re.findall(r"#.*", inspect.getsource(thing))) if inspect.isclass(thing) else ""


def without_example():
    """One line."""


def with_example_but_no_shape(x: "Array") -> float:  # noqa: F821
    """A number of the rows.

    >>> 1 + 1
    2
    """


def complete(x: "Array") -> float:  # noqa: F821
    """A number of the rows (n, d).

    >>> 1 + 1
    2
    """


def test_what_is_missing_is_noticed():
    assert lacks(lambda: None) == ["docstring"]
    assert lacks(without_example) == ["example"]
    assert lacks(with_example_but_no_shape) == ["shapes"]
    assert lacks(complete) == []


@pytest.mark.parametrize("name", THINGS)
def test_a_public_name_has_a_docstring_with_shapes_and_an_example(name):
    missing = lacks(THINGS[name])
    assert not missing, f"{name} has no {' and no '.join(missing)} in its docstring"


def test_every_public_name_is_on_a_page_and_every_name_there_is_public():
    listed = set()
    for page in API.glob("*.md"):
        for block in re.findall(r"```\{eval-rst\}\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
            (module,) = re.findall(r"currentmodule:: (\S+)", block)
            listed |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", block, flags=re.MULTILINE)}
    elsewhere = {
        "stochattn.kinds.register_kind": "stochattn.register_kind",
        "stochattn.nn.ShardedMemory": "stochattn.ShardedMemory",
        "stochattn.samplers.Paths": "stochattn.Paths",
        "stochattn.samplers.register_sampler": "stochattn.register_sampler",
        "stochattn.samplers.run": "stochattn.run",
        "stochattn.samplers.sequential": "stochattn.sequential",
    }  # public under two names, and on the page of the second
    for name, other in elsewhere.items():
        assert THINGS[name] is THINGS[other]
    assert set(THINGS) - set(elsewhere) - listed == set()
    assert listed - set(THINGS) == set()
