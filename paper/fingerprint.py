"""What an experiment depends on: a checksum of its own code, and small computations with the library.

The checksum changes if a module of `paper` that the experiment imports changes in more than comments and docstrings.
The library is not part of it, because most of its changes cannot change a result. Instead, a result records the numbers
of small computations with the parts of the library that the experiment uses, and is out of date if they change.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import stochattn as sa
from stochattn import bounds, conditioning, energy, metrics, multihead, neighbors, temperature
from stochattn.kinds.proteins.sequences import composition_divergence, connected_r, mutual_information_r

from .catalogue import EXPERIMENTS

TOLERANCE = 1e-6  # relative: processors and versions of NumPy differ in the last bits
UNRELATED = ("results.py", "expected.py", "drawing.py", "progress.py", "sources.py")
"""Modules that cannot change a measured value; the data have checksums of their own."""

Numbers = Mapping[str, list[float]]


def code_digest(name: str) -> str:
    """A checksum of an experiment's module and of the modules of `paper` that it imports, directly or not."""
    files = sorted(own_files(Path(str(EXPERIMENTS[name].module.__file__))))
    return hashlib.sha256("\0".join(_content(file) for file in files).encode()).hexdigest()[:16]


def own_files(path: Path) -> set[Path]:
    """A module of `paper`, its .toml, and all modules of `paper` that it imports, directly or not."""
    return {file for file in _own_files(path, set()) if file.name not in UNRELATED}


def _own_files(path: Path, seen: set[Path]) -> set[Path]:
    if path in seen:
        return seen
    seen |= {path, *path.parent.glob(f"{path.stem}.toml")}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            candidates = [folder.with_suffix(".py"), folder / "__init__.py"]
            candidates += [folder / f"{alias.name}.py" for alias in node.names]
            for candidate in candidates:
                if candidate.is_file():
                    _own_files(candidate, seen)
    return seen


def _content(path: Path) -> str:
    """What a file says to the computer: code without comments and docstrings, published values without bands."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        tables = tomllib.loads(text).items()
        return json.dumps({name: (table["columns"], table["rows"]) for name, table in tables})
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        if not getattr(node, "type_params", True):
            del node.type_params  # type: ignore[attr-defined]
    return _dump(tree)


def _dump(tree: ast.AST) -> str:
    """A syntax tree as text, the same for all versions of Python."""
    if sys.version_info >= (3, 13):
        return ast.dump(tree, show_empty=True)
    return ast.dump(tree)


def fingerprint(name: str) -> dict[str, list[float]]:
    """The numbers of the parts of the library that an experiment uses, by part."""
    used: set[str] = {"run", "StochasticAttention"}
    for path in own_files(Path(str(EXPERIMENTS[name].module.__file__))):
        if path.suffix == ".py":
            used |= _names_of_the_library(ast.parse(path.read_text(encoding="utf-8")))
    return {part: numbers for part, numbers in _all_numbers().items() if part in used}


def same(recorded: Numbers | None, current: Numbers) -> bool:
    """Whether two fingerprints agree to within rounding."""
    return recorded is not None and set(recorded) == set(current) and not differing(recorded, current)


def differing(recorded: Numbers, current: Numbers) -> list[str]:
    """The parts whose numbers differ."""
    return [
        part
        for part, numbers in current.items()
        if part in recorded and not np.allclose(recorded[part], numbers, rtol=TOLERANCE, atol=TOLERANCE)
    ]


def _names_of_the_library(tree: ast.AST) -> set[str]:
    """Names imported from stochattn, and attributes of `sa`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stochattn" and not node.level:
            found |= {(node.module or "").split(".")[-1], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sa":
            found.add(node.attr)
    return found


@cache
def _all_numbers() -> dict[str, list[float]]:
    rng = np.random.default_rng(5)
    bank = sa.MemoryBank(rng.standard_normal((12, 20))).normalized()
    states = sa.StochasticAttention(bank, beta=30.0).sample(8, rng=1)
    letters, others = rng.integers(20, size=(30, 9)), rng.integers(20, size=(30, 9))

    def chains() -> list[Any]:
        draws = [
            sa.run(bank, 30.0, sampler=sampler, start=[0, 1, 2], n_chains=3, n_steps=60, keep=[30, 60], rng=2)
            for sampler in ("ula", "mala")
        ]
        draws.append(sa.run(bank, 30.0, start="sphere", n_chains=3, n_steps=60, keep=[60], rng=2))
        draws.append(sa.run(bank, 30.0, sampler="mala", start="equilibrium", n_chains=3, n_steps=60, keep=[60], rng=2))
        return [*(d.samples.sum((1, 2)) for d in draws), draws[1].acceptance, draws[0].basins.ravel()]

    def heads() -> list[Any]:
        split = multihead.pca(bank, 2, n_components=10, norms="paper")  # the twelfth has no variance, and any direction
        run = split.run(30.0, n_chains=2, start=[0, 1], rng=3, n_steps=40, keep=[40])
        return [run.samples.sum(-1), split.sample(4, 30.0, rng=1).sum(-1)]

    parts: dict[str, Callable[[], list[Any]]] = {
        "run": chains,
        "StochasticAttention": lambda: [states.sum(1)],
        "sequential": lambda: [
            sa.sequential(bank, 12.0, n_days=4, inner_steps=10, rng=0).draws.samples.sum(-1),
        ],
        "energy": lambda: [
            energy.table_energy(states, bank, 30.0),
            energy.entropy(states, bank, 30.0),
            energy.attend(states, bank, 30.0).sum(1),
            energy.weights(states, bank, 30.0).max(1),
        ],
        "metrics": lambda: [
            *(
                getattr(metrics.summarize(states[:, None], bank, 30.0), q)[0]
                for q in ("novelty", "diversity", "energy")
            ),
            metrics.frechet_diagonal(states, bank.patterns),
        ],
        "temperature": lambda: [
            temperature.knee(bank),
            temperature.inflection(bank),
            temperature.leave_one_out(bank),
        ],
        "multihead": heads,
        "conditioning": lambda: [conditioning.subset(bank, np.arange(12) < 4).log_r],
        "neighbors": lambda: [*neighbors.nearest_memory(states, bank)],
        "bounds": lambda: [bounds.sigma_squared(bank)],
        "sequences": lambda: [
            composition_divergence(letters, others),
            mutual_information_r(letters, others),
            connected_r(letters, others),
        ],
    }
    return {
        part: [round(float(x), 12) for value in compute() for x in np.ravel(np.nan_to_num(value, neginf=-1.0))]
        for part, compute in parts.items()
    }
