"""The package as a whole: what importing it loads, and which way imports point."""

import ast
import subprocess
import sys
from pathlib import Path

import stochattn

SOURCE = Path(stochattn.__file__).parent
# A module may import those before it. Within samplers the same order rule holds for its own files.
LAYERS = (
    *("_version", "_arrays", "_checks", "_progress", "_random", "memory", "energy", "bounds", "conditioning"),
    *("subspace", "draws", "samplers", "heads", "metrics", "temperature", "model", "sklearn", "__init__"),
)
SAMPLER_LAYERS = (
    "base",
    "exact",
    "ula",
    "mala",
    "start",
    "plan",
    "record",
    "interrupt",
    "loop",
    "sequential",
    "__init__",
)


def test_importing_loads_numpy_and_nothing_heavier():
    code = "import sys, stochattn; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "scipy",
        "sklearn",
        "pandas",
        "pyhmmer",
        "PIL",
        "matplotlib",
        "typer",
        "rich",
        "torch",
        "arviz",
        "transformers",
    }
    assert "numpy" in loaded
    assert not heavy & set(loaded)


def imported(path: Path):
    """(level, first name) of each relative import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            yield from ((node.level, name) for name in names)


def test_imports_point_one_way():
    for path in SOURCE.glob("*.py"):
        for _, name in imported(path):
            assert LAYERS.index(name) < LAYERS.index(path.stem), f"{path.name} must not import {name}"
    for path in (SOURCE / "samplers").glob("*.py"):
        for level, name in imported(path):
            order, own = (SAMPLER_LAYERS, path.stem) if level == 1 else (LAYERS, "samplers")
            assert order.index(name) < order.index(own), f"samplers/{path.name} must not import {name}"


def test_every_module_has_its_layer():
    assert {p.stem for p in SOURCE.glob("*.py")} | {"samplers"} == set(LAYERS)
    assert {p.stem for p in (SOURCE / "samplers").glob("*.py")} == set(SAMPLER_LAYERS)


def test_public_names_exist_and_are_documented():
    for name in stochattn.__all__:
        thing = getattr(stochattn, name)
        assert name == "__version__" or thing.__doc__
