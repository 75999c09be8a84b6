"""The package as a whole: loaded modules, order of imports, sizes of packages, and pages that name its files."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import stochattn
from stochattn.kinds.registry import _MODULES

SOURCE = Path(stochattn.__file__).parent
ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "docs" / "contributing"
SCOPE, CONSTANTS = CONTRIBUTING / "scope.md", CONTRIBUTING / "constants.md"
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
    """A history of prices is looked for among the columns of a table, by its description, which is always loaded."""
    table, family = tmp_path / "patients.csv", tmp_path / "family.fasta"
    table.write_text("age,sex\n" + "".join(f"{20 + i},{'FM'[i % 2]}\n" for i in range(30)))
    family.write_text("".join(f">s{i}\nMKVL{'AS'[i % 2]}\n" for i in range(10)))
    for path, chosen in ((table, "tables"), (family, "proteins")):
        loaded = kinds_loaded_by("import sys, stochattn; stochattn.fit(sys.argv[1]).sample(2, rng=0)", str(path))
        assert f"{chosen}.kind" in loaded
        assert all(name.startswith(chosen) for name in loaded)
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


def imported_paths(path):
    """The paths in the package, as tuples of names, that the relative imports of a file lead to, each with its line."""
    inside = path.relative_to(SOURCE).parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = (*inside[: len(inside) - node.level], *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                yield (*module, alias.name), node.lineno


def test_a_kind_of_data_imports_no_other_kind():
    folders = {path.parent.name for path in SOURCE.glob("kinds/*/kind.py")}
    assert folders == set(_MODULES.values())
    for path in (SOURCE / "kinds").rglob("*.py"):
        for target, line in imported_paths(path):
            kinds = folders.intersection(target[1:2]) if target[0] == "kinds" else set()
            here = path.relative_to(SOURCE)
            assert not kinds - {here.parts[1]}, f"{here} line {line} imports another kind"


LOADERS = {"__init__.py", "kinds/__init__.py", "kinds/registry.py"}
"""Files that load modules of other packages by name: public names and kinds, when they are first used."""


def test_no_other_file_hides_an_import_of_another_package():
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func) and here not in LOADERS:
                if isinstance(node.args[0], ast.Constant):
                    hidden = node.args[0].value.startswith(("..", "stochattn"))
                else:
                    hidden = len(node.args) > 1  # a name relative to a package
                assert not hidden, f"{here} line {node.lineno}: import the module in a statement, which tests can see"


def budgets():
    """The most files and lines of each package, from the table of the page on scope; "stochattn" is the root."""
    rows = re.findall(r"^\| `([\w/]+)`[^|]*\| ([\d,]+) \| ([\d,]+) \|$", SCOPE.read_text("utf-8"), re.MULTILINE)
    return {name: (int(files.replace(",", "")), int(lines.replace(",", ""))) for name, files, lines in rows}


def package_sizes():
    """The files and lines of each package; those of a package in `kinds/` are counted there alone."""
    sizes = {}
    for path in SOURCE.rglob("*.py"):
        folders = path.relative_to(SOURCE).parts[:-1]
        name = "/".join(folders[: 2 if folders[:1] == ("kinds",) else 1]) or "stochattn"
        files, lines = sizes.get(name, (0, 0))
        sizes[name] = files + 1, lines + len(path.read_text("utf-8").splitlines())
    return sizes


def test_every_package_has_a_budget_and_keeps_it():
    limits, sizes = budgets(), package_sizes()
    assert set(limits) == set(sizes), f"{SCOPE.name} and src/stochattn have different packages"
    for name, (files, lines) in sizes.items():
        for what, size, limit in (("files", files, limits[name][0]), ("lines", lines, limits[name][1])):
            assert size <= limit, f"{name} has {size} {what}, and its budget in docs/contributing/scope.md is {limit}"


EXAMPLES = {"src/stochattn/samplers/exponential.py", "result.json"}
"""Files that the reader of a recipe, or a run, writes."""


def test_files_that_pages_for_developers_name_exist():
    folders = [ROOT / name for name in ("src", "tests", "paper", "benchmarks", "examples", "docs")]
    files = [path.as_posix() for folder in folders for path in folder.rglob("*.*")] + [f"{ROOT}/pyproject.toml"]
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md", *CONTRIBUTING.rglob("*.md")):
        named = set(re.findall(r"(?<![\w/>.*])[\w/]+\.(?:py|toml|json)\b", page.read_text("utf-8"))) - EXAMPLES
        gone = [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)]
        assert not gone, f"{page.name} names files that do not exist: {gone}"


def test_constants_of_the_page_exist():
    rows = re.findall(r"^\| (`[^|]+) \| (`\S+`|the same) \|", CONSTANTS.read_text("utf-8"), flags=re.MULTILINE)
    assert len(rows) > 50
    for names, place in rows:
        if place != "the same":
            file = SOURCE / place.strip("`")
            assigned = {
                name.id
                for statement in ast.parse(file.read_text("utf-8")).body
                if isinstance(statement, ast.Assign | ast.AnnAssign)
                for name in ast.walk(statement)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
        missing = set(re.findall(r"`(\w+)`", names)) - assigned
        assert not missing, f"{CONSTANTS.name}: {file.name} has no {', '.join(sorted(missing))}"


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
