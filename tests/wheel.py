"""Build the sdist and the wheel, check them as an index does, and use both in a clean environment without extras.

    python tests/wheel.py                           with this Python
    python tests/wheel.py python3.12 python3.13     with these, each in an environment of its own

Type checkers then check `typing/user_program.py` against the installed wheel, and all extras are resolved, from
metadata alone, for every supported Python and system.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "typing" / "user_program.py"
MAX_WHEEL_BYTES = 1_000_000
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")
USE = """
import importlib.util, sys
before = set(sys.modules)
import stochattn as sa
imported = set(sys.modules) - before
assert imported == {"stochattn", "stochattn._version"}, imported  # importing costs nothing until a name is used
assert "site-packages" in sa.__file__, sa.__file__  # what was installed, not the checkout
assert importlib.util.find_spec("torch") is None  # extras stay optional

import numpy as np, pandas as pd
rng = np.random.default_rng(0)
frame = pd.DataFrame({"age": rng.integers(20, 80, 40), "dose": rng.normal(5, 1, 40).round(1)})
frame.to_csv("patients.csv", index=False)
synth = sa.fit("patients.csv")
assert (synth.condition(age=40).sample(5, rng=0)["age"] == 40).all()
synth.save("patients.synth", replace=True)
pd.testing.assert_frame_equal(sa.load("patients.synth").sample(9, rng=1), synth.sample(9, rng=1))
model = sa.StochasticAttention(rng.standard_normal((20, 5)), beta=5.0, equal_weights=True)
assert model.sample(10, rng=0).shape == (10, 5)
print("Python", sys.version.split()[0], "uses stochattn", sa.__version__, flush=True)
"""
COMMANDS = (
    ["--version"],
    ["sample", "patients.csv", "-n", "20", "--condition", "age=40", "-o", "new.csv", "--replace"],
    ["inspect", "patients.csv"],
    ["report", "patients.csv", "-n", "30", "--quick", "-o", "report.html"],
)


def call(*command: object, cwd: Path, quiet: bool = False) -> None:
    """Run a program; a failure ends this one."""
    done = subprocess.run([*map(str, command)], cwd=cwd, stdout=subprocess.DEVNULL if quiet else None)
    if done.returncode:
        raise SystemExit(f"failed with exit code {done.returncode}: {' '.join(map(str, command))}")


def cannot_start(*command: str) -> str:
    """Why a program cannot be started, in one line; empty if it can."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return "no answer within three minutes"
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else ""


def build(place: Path) -> tuple[Path, Path]:
    """The sdist and the wheel made from it, checked: metadata, size, version and contents."""
    call(sys.executable, "-m", "build", "--outdir", place, ROOT, cwd=place, quiet=True)
    (sdist,), (wheel,) = place.glob("*.tar.gz"), place.glob("*.whl")
    call(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=place)
    version = re.search(r'"(.+)"', (ROOT / "src" / "stochattn" / "_version.py").read_text("utf-8").splitlines()[-1])
    assert version is not None
    assert wheel.name == f"stochattn-{version[1]}-py3-none-any.whl", wheel.name
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES, f"{wheel.name} has {wheel.stat().st_size:,} bytes"
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.split("/")[0] for name in archive.namelist()}
        assert inside == {"stochattn", f"stochattn-{version[1]}.dist-info"}, inside
        assert "stochattn/py.typed" in archive.namelist()
    with tarfile.open(sdist) as archive:
        named = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    missing = {name for name in tracked if name} - named - {".gitignore"}
    assert not missing, f"the sdist lacks {sorted(missing)[:5]}: add them to pyproject.toml"
    print(f"{wheel.name}: {wheel.stat().st_size / 1e3:.0f} kB; {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    return sdist, wheel


def use(python: str, sdist: Path, wheel: Path, place: Path) -> Path:
    """Install the wheel, and then the sdist in its place, into a clean environment; the Python of it."""
    here = Path(tempfile.mkdtemp(dir=place))
    call(python, "-m", "venv", here / "env", cwd=here)
    programs = here / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    install = programs / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install"
    call(*install, wheel, cwd=here)
    call(programs / "python", "-c", USE, cwd=here)
    for command in COMMANDS:
        call(programs / "stochattn", *command, cwd=here, quiet=True)
    written = {path.name for path in here.iterdir()}
    assert {"new.csv", "new.csv.json", "report.html"} <= written, written
    call(programs / "python", PROGRAM, cwd=here)
    call(*install, "--no-deps", "--force-reinstall", sdist, cwd=here)
    call(programs / "python", "-c", USE, cwd=here)
    return programs / "python"


def check_types(python: Path, place: Path) -> None:
    """Check the user's program with mypy and, where it can be had, pyright, both against the installed package."""
    shutil.copytree(PROGRAM.parent, place / "typing", ignore=shutil.ignore_patterns("__pycache__"))
    options = "--strict", "--python-executable", python, "--cache-dir", place / "mypy"
    call(sys.executable, "-m", "mypy", *options, PROGRAM.name, cwd=place / "typing")
    pyright = [sys.executable, "-m", "pyright"]
    if reason := cannot_start(*pyright, "--version"):  # it is fetched from npm, which some machines cannot reach
        print(f"pyright: skipped, because it cannot be started here: {reason}")
        return
    call(*pyright, "--pythonpath", python, "-p", place / "typing", cwd=place)


def resolve(wheel: Path, place: Path) -> None:
    """Find releases of all that the extra `all` needs, for each Python and system, without downloading them."""
    (place / "all.in").write_text(f"stochattn[all] @ {wheel.as_uri()}\n")
    uv = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--only-binary",
        ":all:",
        "-c",
        ROOT / "constraints.txt",
    ]
    os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", "14.0")  # the oldest system for which torch has a build
    for python in PYTHONS:
        for system in SYSTEMS:
            target = "--python-version", python, "--python-platform", system
            call(*uv, *target, "-o", place / "all.txt", place / "all.in", cwd=place, quiet=True)
            lines = (place / "all.txt").read_text("utf-8").splitlines()
            print(f"stochattn[all], Python {python}, {system}: {sum('==' in line for line in lines)} packages")
            (place / "all.txt").unlink()


def main() -> None:
    """Build, install, use, and check from outside."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sdist, wheel = build(place)
        used = [use(python, sdist, wheel, place) for python in sys.argv[1:] or [sys.executable]]
        check_types(used[0], place)
        resolve(wheel, place)
        print(f"{wheel.name} and {sdist.name} work in clean environments")


if __name__ == "__main__":
    main()
