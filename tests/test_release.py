"""What is released, from the files of the checkout: one version, extras, workflows, change notes, the Dockerfile."""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import yaml

import release_files
import stochattn
import transformers_versions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
FOR_DEVELOPERS = {"dev", "docs", "paper", "bench", "benchmarks"}
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
JOBS = [(f"{name}.{key}", job) for name, flow in WORKFLOWS.items() for key, job in flow["jobs"].items()]
STEPS = [(name, step) for name, job in JOBS for step in job.get("steps", ())]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def made(text):
    """The targets of make in a script."""
    return set(re.findall(r"^\s*make ([a-z-]+)", text, re.MULTILINE))


def test_the_version_is_the_same_everywhere():
    version = stochattn.__version__
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/stochattn/_version.py"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == version
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[1]
    assert version.split(".dev")[0] == newest
    numbers = re.findall(r"stochattn==?(\d[\w.]*)", (ROOT / "README.md").read_text("utf-8"))
    assert set(numbers) <= {version}


def test_the_extra_all_has_every_extra_for_users():
    def members(extra):
        """The extras that this one names, with those that they name."""
        named = {
            e for text in EXTRAS[extra] for e in re.findall(r"\[(.*)\]", text.split(";")[0])[:1] if "stochattn" in text
        }
        direct = {one for names in named for one in names.split(",")}
        return direct.union(*map(members, direct))

    assert set(EXTRAS) - FOR_DEVELOPERS - {"all"} <= members("all")
    assert not members("all") & FOR_DEVELOPERS


def test_workflows_test_every_python_that_the_package_names():
    named = set(re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"])))
    assert set(WORKFLOWS["tests"]["jobs"]["test"]["strategy"]["matrix"]["python"]) == named
    assert PROJECT["project"]["requires-python"] == f">={min(named, key=lambda v: int(v[2:]))}"
    import wheel  # the checks of the built wheel

    assert set(wheel.PYTHONS) == named


def test_workflows_and_the_script_of_ci_call_the_same_targets():
    called = set().union(*(made(step.get("run", "")) for _, step in STEPS))
    assert called - {"docs"} <= TARGETS
    assert made((ROOT / ".ci" / "run").read_text("utf-8")) == {"test-all"}
    _, _, recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ntest-all: test\n")
    parts = made(recipe.partition("\n\n")[0].replace("$(MAKE)", "make"))
    assert {"corpus", "wheel"} <= parts <= called
    assert {"test", "wheel", "release-files", "dist", "docs"} <= called


MENDED = {"Pillow": (13,), "torch": (2, 10)}
"""The first releases without a published advisory, of what this library opens files with: OSV, CVE-2026-24747."""


@pytest.mark.parametrize("name", MENDED)
def test_releases_with_published_advisories_are_not_allowed(name):
    texts = [*PROJECT["project"]["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    floors = [re.match(rf"{name}>=([\d.]+)$", text) for text in texts]
    found = [tuple(map(int, floor[1].split("."))) for floor in floors if floor]
    assert found
    assert min(found) >= MENDED[name]


def test_other_releases_of_transformers_run_tests_that_exist():
    assert all(path.is_file() for path in transformers_versions.FILES)


@pytest.mark.parametrize(("name", "step"), [pair for pair in STEPS if "uses" in pair[1]], ids=lambda x: str(x)[:60])
def test_actions_are_pinned_and_checkouts_keep_no_credentials(name, step):
    assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
    if "checkout" in step["uses"]:
        assert step["with"]["persist-credentials"] is False


def test_only_publishing_jobs_may_do_more_than_read():
    for name, flow in WORKFLOWS.items():
        assert flow["permissions"] == {"contents": "read"}, name
    allowed = {name: job["permissions"] for name, job in JOBS if "permissions" in job}
    assert allowed == {
        "docs.publish": {"pages": "write", "id-token": "write"},
        "release.publish": {"id-token": "write"},
    }
    publish = WORKFLOWS["release"]["jobs"]["publish"]
    assert publish["environment"]["name"] == "pypi"
    assert set(publish["needs"]) == {"tests", "wheels"}
    assert not any("secrets." in str(step) for _, step in STEPS)  # trusted publishing has no token
    assert all("timeout-minutes" in job or "uses" in job for _, job in JOBS)


def test_notes_on_changes_have_a_type():
    kinds = {one["directory"] for one in PROJECT["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changes").iterdir():
        if path.name == "README.md":
            assert all(f"`{kind}`" in path.read_text("utf-8") for kind in kinds)
            continue
        assert re.fullmatch(rf"[\w+-]+\.({'|'.join(kinds)})\.md", path.name), path.name
        assert path.read_text("utf-8").strip()
    assert PROJECT["tool"]["towncrier"]["start_string"] in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_a_tag_needs_its_version_a_dated_section_and_no_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(release_files, "ROOT", tmp_path)
    (tmp_path / "src" / "stochattn").mkdir(parents=True)
    (tmp_path / "changes").mkdir()
    version, changelog = tmp_path / "src" / "stochattn" / "_version.py", tmp_path / "CHANGELOG.md"
    version.write_text('"""The version."""\n\n__version__ = "1.2.3"\n')
    changelog.write_text("# Changes\n\n## 1.2.3 (2026-01-31)\n\n## 1.2.2 (2026-01-01)\n")
    (tmp_path / "changes" / "README.md").write_text("how to\n")
    assert release_files.of_tag("v1.2.3") == []
    assert len(release_files.of_tag("v1.2.2")) == 1
    (tmp_path / "changes" / "7.fixed.md").write_text("A note.\n")
    assert len(release_files.of_tag("v1.2.3")) == 1
    changelog.write_text("# Changes\n\n## 1.2.3 (unreleased)\n")
    assert len(release_files.of_tag("v1.2.3")) == 2


def test_the_image_runs_as_a_user_and_has_what_it_copies():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    users = re.findall(r"^USER (.+)", text, re.MULTILINE)
    assert users
    assert int(users[-1]) > 0
    assert re.search(r"^FROM python:3\.\d+-slim$", text, re.MULTILINE)
    copied = [word for line in re.findall(r"^COPY (?!--from)(.+)", text, re.MULTILINE) for word in line.split()[:-1]]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    for name in copied:
        assert (ROOT / name).exists()
        assert name.split("/")[0] in kept
    assert all("-p 127.0.0.1:" in line for line in text.splitlines() if " -p " in line)


def test_the_sdist_names_all_that_is_tracked_at_the_root():
    included = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    for name in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "CITATION.cff", "Dockerfile"):
        assert name in included
        assert (ROOT / name).is_file()


@pytest.mark.skipif(shutil.which("sh") is None, reason="the script of the image needs a shell")
def test_the_image_joins_the_published_port_to_the_explorer(tmp_path):
    for name, does in (
        ("stochattn", 'echo "$@"'),
        ("socat", f'echo "$@" > {tmp_path}/joined'),
        ("hostname", "echo 10.0.0.7 fd00::7"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)

    def started(*words):
        command, environment = (
            ["sh", str(ROOT / "docker" / "entrypoint.sh"), *words],
            {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout.split()

    assert started("sample", "a b.csv", "-n", "5") == ["sample", "a", "b.csv", "-n", "5"]
    assert not (tmp_path / "joined").exists()
    assert started("explore", "x.csv") == ["explore", "x.csv", "--port", "8765", "--no-browser"]
    for _ in range(200):  # it runs in the background
        if (tmp_path / "joined").exists() and (tmp_path / "joined").read_text():
            break
        time.sleep(0.05)
    assert (tmp_path / "joined").read_text().split() == [
        "TCP-LISTEN:8765,bind=10.0.0.7,fork,reuseaddr",
        "TCP:127.0.0.1:8765",
    ]


def test_a_program_that_cannot_be_started_gives_its_reason():
    import wheel

    assert wheel.cannot_start(sys.executable, "--version") == ""
    assert wheel.cannot_start(sys.executable, "-m", "no_such_module").endswith("No module named no_such_module")
