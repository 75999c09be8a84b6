"""The documentation site: its own extensions, its map of packages, and pages that can be reached and have an end."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from test_structure import ORDER

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))
SUBJECTS = {
    *("proteins", "patients", "few_shot", "stress", "ecg", "inpainting", "ten_pictures", "exact_law", "transformer"),
    *("one_memory", "larger_than_memory", "cluster"),
}


def extension(name):
    """A module of docs/_ext, which is not on the path; skipped where Sphinx is not installed."""
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_become_sections():
    sections = extension("docstrings").sections
    lines = [
        "The value |x| of x_.",
        "",
        "x:    (n, d) rows, of which",
        "      there are n",
        "beta, alpha: numbers",
        "A sentence with a*b.",
        "",
        ">>> 1 * 2",
        "2",
    ]
    text = sections(lines)
    assert text[0] == r"The value \|x\| of x\_."
    assert r"A sentence with a\*b." in text
    head = text.index("Parameters")
    assert text[head + 2 : head + 7] == [
        "x",
        "    (n, d) rows, of which",
        "    there are n",
        "beta, alpha",
        "    numbers",
    ]
    assert text[-4:] == ["Examples", "--------", ">>> 1 * 2", "2"]


def test_docstrings_with_sections_keep_them():
    sections = extension("docstrings").sections
    lines = ["One.", "", "Parameters", "----------", "x : int", "", ">>> 1", "1"]
    assert sections(lines) == [*lines[:6], "", "Examples", "--------", *lines[6:]]


def test_links_to_files_at_the_root_lead_to_their_pages():
    pages = extension("pages")
    for name, before, after in (
        ("reliability", "[s](../SECURITY.md)", "[s](contributing/security.md)"),
        ("evidence/memory", "[s](../../SECURITY.md)", "[s](../contributing/security.md)"),
        ("reliability", "[s](../src/x.py)", "[s](../src/x.py)"),
    ):
        source = [before]
        pages.link_to_root(None, name, source)
        assert source == [after]


def test_formulas_become_mathml():
    mathml, nodes = extension("mathml"), pytest.importorskip("docutils.nodes")
    found = mathml.converted(None, nodes.math(text=r"\tfrac{1}{2} x^2"), block=False)
    assert found.startswith("<math")
    assert "<mfrac" in found


def test_the_tutorials_of_the_gallery_exist_and_are_ordered():
    assert {path.stem for path in TUTORIALS} >= SUBJECTS
    order = extension("gallery").TutorialOrder("tutorials")
    names = sorted((path.name for path in TUTORIALS), key=order)
    assert names[0] == "proteins.py"
    assert names.index("exact_law.py") < names.index("cluster.py")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_has_a_title_an_introduction_and_figures_with_titles(path):
    text = path.read_text("utf-8")
    title, line, introduction = re.match(r'r?"""\n(.+)\n(=+)\n\n(.+?)\n"""', text, flags=re.DOTALL).groups()
    assert len(line) >= len(title)
    assert len(introduction.split()) > 20
    figures = text.count("plt.show()")
    assert 0 < figures <= len(re.findall(r"title[=(]", text)), "alternative text is made of the titles of figures"


def test_every_package_is_on_the_map():
    drawn = set(re.findall(r'font-family:monospace">([\w.]+)<', (DOCS / "contributing" / "map.md").read_text("utf-8")))
    packages = set(ORDER) - {"_version", "__init__", "__main__"}
    assert {name.removesuffix(".py") for name in drawn} == packages


def test_every_page_is_in_a_table_of_contents():
    found = {"index"}
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
            for entry in re.findall(r"^(?!:)(?:.+<)?([\w./]+)>?$", block, flags=re.MULTILINE):
                found.add((page.parent / entry).resolve().relative_to(DOCS.resolve()).as_posix())
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    pages = {name for name in pages if not name.startswith(("_build/", "auto_tutorials/", "reproduction/"))}
    assert pages - found == set()


def test_pages_of_the_guide_have_at_most_two_screens():
    for page in (*(DOCS / "guide").glob("*.md"), DOCS / "large_banks.md"):
        text = re.sub(r"```\{raw\} html.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        assert len(text.split()) <= 900, page.name


def test_pages_that_load_from_other_hosts_are_noticed(monkeypatch):
    pages, found = extension("pages"), []
    monkeypatch.setattr(pages.LOGGER, "warning", lambda text, *about: found.append(about))
    body = (
        '<a href="https://a.org/x">a link</a><img alt="" src="_images/a.png"><script src="https://b.org/b.js"></script>'
    )
    pages.check_hosts(None, "index", "page.html", {"body": body}, None)
    assert found == [("index", "https://b.org/b.js")]


def test_reading_times_count_words_and_not_drawings():
    pages = extension("pages")
    assert pages.minutes("word " * 1000) == 5
    assert pages.minutes("word " * 400 + "```{raw} html\n" + "text " * 2000 + "\n```") == 2
    assert pages.title_of('r"""\nA title\n=======\n\nText."""') == pages.title_of("text\n# A title\n") == "A title"


@pytest.mark.slow
def test_a_picture_without_alternative_text_stops_the_build(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    (tmp_path / "conf.py").write_text(
        f"import sys; sys.path.insert(0, {str(DOCS / '_ext')!r}); extensions = ['myst_parser', 'pages']\n"
    )
    (tmp_path / "a.png").write_bytes((DOCS / "digits.png").read_bytes())
    for text, code in (("A small picture", 0), ("", 1)):
        (tmp_path / "index.md").write_text(f"# Title\n\n![{text}](a.png)\n")
        command = [sys.executable, "-m", "sphinx", "-W", "-q", "-E", str(tmp_path), str(tmp_path / "out")]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == code, result.stderr
        assert ("has no alternative text" in result.stderr) == bool(code)
