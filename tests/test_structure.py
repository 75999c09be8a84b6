"""The package as a whole: loaded modules, order of imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import stochattn

SOURCE = Path(stochattn.__file__).parent
# A package, or a module at the root, may import those before it and itself.
ORDER = (
    *("_version", "_backend", "storage", "core", "kernels", "samplers", "model"),
    *("sklearn", "nn", "kinds", "synthesizer", "evaluation", "__init__"),
    *("report", "explorer", "cli", "__main__"),
)
# Methods of a synthesizer for users import these when they are called; nothing else looks upward.
FOR_TYPES = {("synthesizer/synthesizer.py", name) for name in ("evaluation", "explorer", "report")}

FORMER = {"data", "generators"}
"""Names of packages until version 0.2: they warn, and give what `stochattn.kinds` has."""

MAX_ANY = 150


def loaded_by(statement):
    """Names of the packages that a program with this statement loads."""
    code = f"import sys, stochattn; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_loads_nothing_and_models_load_numpy_and_nothing_heavier():
    heavy = {
        *("scipy", "sklearn", "pandas", "pyhmmer", "PIL", "matplotlib", "typer", "rich", "torch", "arviz"),
        *("transformers", "joblib", "dask", "panel", "bokeh"),
    }
    assert not {"numpy", *heavy} & loaded_by("pass")
    models = loaded_by("stochattn.StochasticAttention; stochattn.run; stochattn.metrics")
    assert "numpy" in models
    assert not heavy & models


def kinds_loaded_by(program, *arguments):
    """Modules of the folders of the kinds that a program loads, beside their descriptions."""
    code = (
        f"{program}\nimport sys; print(*(m for m in sys.modules if m.startswith('stochattn.kinds.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    names = (name.split(".")[2:] for name in done.stderr.split() if name.startswith("stochattn.kinds."))
    folders = {path.parent.name for path in SOURCE.glob("kinds/*/kind.py")}
    return {".".join(name) for name in names if name[0] in folders and name[1:] not in ([], ["description"])}


COMMAND = """
from stochattn.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code
"""


def test_only_the_chosen_kind_is_loaded(tmp_path):
    """A history of prices is looked for among the columns of a table, by a module that needs no code of the kind."""
    table, family = tmp_path / "patients.csv", tmp_path / "family.fasta"
    table.write_text("age,sex\n" + "".join(f"{20 + i},{'FM'[i % 2]}\n" for i in range(30)))
    family.write_text("".join(f">s{i}\nMKVL{'AS'[i % 2]}\n" for i in range(10)))
    for path, chosen in ((table, "tables"), (family, "proteins")):
        loaded = kinds_loaded_by("import sys, stochattn; stochattn.fit(sys.argv[1]).sample(2, rng=0)", str(path))
        assert f"{chosen}.kind" in loaded
        assert {name for name in loaded if not name.startswith(chosen)} <= {"returns.recognition"}
    assert kinds_loaded_by(COMMAND, "sample", str(table), "--help") == set()
    assert kinds_loaded_by("import stochattn.kinds.registry as r; r.descriptions()") == set()


def test_help_of_the_command_line_does_not_wait_for_libraries_that_it_does_not_use():
    heavy = {"scipy", "sklearn", "pandas", "pyhmmer", "PIL", "matplotlib", "torch", "arviz"}
    assert not heavy & loaded_by("import stochattn.cli.app; stochattn.cli.app.build_app()")


def top(path):
    """The package at the root that a file belongs to, or its own name if it stands at the root."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """Packages and modules at the root that a file imports, at any place in the file."""
    inside = path.relative_to(SOURCE).parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level]
            names = node.module.split(".") if node.module else []
            for alias in node.names:
                yield (*base, *names, alias.name)[0]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "stochattn":
            raise AssertionError(f"{path} must import the package's own modules relatively")


def test_imports_point_one_way():
    for path in SOURCE.rglob("*.py"):
        if top(path) in FORMER:
            continue
        for name in imported(path):
            if (str(path.relative_to(SOURCE)), name) in FOR_TYPES:
                continue
            assert ORDER.index(name) <= ORDER.index(top(path)), f"{path.relative_to(SOURCE)} must not import {name}"


def test_every_package_has_its_place():
    packages = {p.stem for p in SOURCE.glob("*.py")} | {p.parent.name for p in SOURCE.glob("*/__init__.py")}
    assert packages - FORMER == set(ORDER)


def test_a_kind_of_data_imports_no_other_kind():
    folders = {path.parent.name for path in SOURCE.glob("kinds/*/kind.py")}
    assert len(folders) == 5
    for path in (SOURCE / "kinds").rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = (*inside[: len(inside) - node.level], *(node.module or "").split("."))
                kinds = folders.intersection(module[1:2]) if module[0] == "kinds" else set()
                assert not kinds - {inside[1]}, f"{path.relative_to(SOURCE)} line {node.lineno} imports another kind"


def test_any_is_rare():
    words = [re.findall(r"\bAny\b", path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    assert sum(map(len, words)) < MAX_ANY


def test_only_the_command_line_mentions_flags():
    for path in SOURCE.rglob("*.py"):
        if top(path) == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = re.search(r"(?<![\w-])--[a-z][a-z-]*(?![\w>-])", node.value)
                assert found is None, f"{path.relative_to(SOURCE)} line {node.lineno}: {found[0]}"


def test_public_names_exist_and_are_documented():
    for name in stochattn.__all__:
        thing = getattr(stochattn, name)
        assert name == "__version__" or thing.__doc__
