"""The package as a whole: what importing it loads, and which way imports point."""

import ast
import subprocess
import sys
from pathlib import Path

import stochattn

SOURCE = Path(stochattn.__file__).parent
# A module may import those before it. Within samplers the same order rule holds for its own files.
LAYERS = (
    *(
        "_version",
        "_arrays",
        "_checks",
        "_progress",
        "_room",
        "_random",
        "kernels",
        "_philox",
        "files",
        "streaming",
        "mapped",
    ),
    *(
        "memory_checks",
        "memory",
        "energy",
        "bounds",
        "conditioning",
        "subspace",
        "draws",
        "samplers",
        "mixture",
        "neighbourhoods",
        "geometry",
        "heads",
        "metrics",
        "evaluate",
        "light",
    ),
    *(
        "window_attention",
        "local_heads",
        "warps",
        "streamed_beta",
        "temperature",
        "to_disk",
        "model",
        "sklearn",
        "nn",
        "__init__",
    ),
    *("codecs", "pipeline", "halves", "paths", "examples", "outputs", "inspection", "report", "cli", "__main__"),
)
# Codecs stand beside the samplers, not above them: what they may use of the core.
UNDER_CODECS = {
    *("_version", "_arrays", "_checks", "_progress", "_random", "files", "memory", "energy", "metrics", "geometry"),
    *("neighbourhoods", "local_heads", "warps"),
}
KINDS = {"proteins", "images", "tables", "returns"}
SAMPLER_LAYERS = (
    "base",
    "exact",
    "ula",
    "mala",
    "start",
    "plan",
    "record",
    "stretch",
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


def reach(path: Path):
    """Modules of the package, by their path inside it, that a file imports."""
    inside = path.relative_to(SOURCE).parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level]
            names = node.module.split(".") if node.module else []
            for alias in node.names:
                yield (*base, *names) if names else (*base, alias.name)


def test_codecs_use_the_core_s_foundations_and_no_other_kind():
    for path in (SOURCE / "codecs").rglob("*.py"):
        own = path.relative_to(SOURCE / "codecs").parts[0]
        for target in reach(path):
            if target[0] != "codecs":
                assert target[0] in UNDER_CODECS, f"{path.name} must not import {target[0]}"
            elif len(target) > 1 and target[1] in KINDS and own != "recognise.py":
                assert target[1] == own, f"codecs/{own} must not import codecs/{target[1]}"


def test_only_the_upper_layers_know_codecs():
    below = LAYERS[: LAYERS.index("codecs")]
    for path in SOURCE.rglob("*.py"):
        top = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if top in below:
            assert all(target[0] not in LAYERS[len(below) :] for target in reach(path)), path
    for package in ("report", "cli"):
        for path in (SOURCE / package).glob("*.py"):
            above = LAYERS[LAYERS.index(package) + 1 :]
            assert all(target[0] not in above for target in reach(path)), path


def test_imports_point_one_way():
    for path in SOURCE.glob("*.py"):
        for _, name in imported(path):
            assert LAYERS.index(name) < LAYERS.index(path.stem), f"{path.name} must not import {name}"
    for path in (SOURCE / "samplers").glob("*.py"):
        for level, name in imported(path):
            order, own = (SAMPLER_LAYERS, path.stem) if level == 1 else (LAYERS, "samplers")
            assert order.index(name) < order.index(own), f"samplers/{path.name} must not import {name}"


def test_every_module_has_its_layer():
    packages = {"samplers", "kernels", "nn", "codecs", "report", "cli"}
    assert {p.stem for p in SOURCE.glob("*.py")} | packages == set(LAYERS)
    assert {p.name for p in (SOURCE / "codecs").iterdir() if p.is_dir() and p.name != "__pycache__"} == KINDS
    assert {p.stem for p in (SOURCE / "samplers").glob("*.py")} == set(SAMPLER_LAYERS)


def test_public_names_exist_and_are_documented():
    for name in stochattn.__all__:
        thing = getattr(stochattn, name)
        assert name == "__version__" or thing.__doc__
