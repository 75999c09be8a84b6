"""Run the tests of pretrained models with other releases of transformers, each installed into a separate folder.

    python tests/transformers_versions.py                the releases below
    python tests/transformers_versions.py 4.51.3 5.3.0   these

Torch and all other packages come from the environment. The script fails if one release fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASES = ("4.50.0", "4.52.4", "4.53.3", "4.57.6", "5.0.0")
"""A dictionary of attention functions; an interface; masks of its own; the last of 4; BERT on the interface."""
FILES = tuple(ROOT / "tests" / "nn" / name for name in ("test_pretrained.py", "test_pretrained_layers.py"))


def passes(release: str, folder: str) -> bool:
    """Install a release into a folder and run the tests with it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder]
    # keep the numpy for which the compiled packages of the environment were built
    subprocess.run([*pip, f"transformers=={release}", f"numpy=={_numpy()}"], check=True)
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, FILES)]
    print(f"transformers {release}:", flush=True)
    return subprocess.run(tests, cwd=ROOT, env={**os.environ, "PYTHONPATH": folder}).returncode == 0


def _numpy() -> str:
    import numpy

    return numpy.__version__


def main() -> None:
    failed = []
    for release in sys.argv[1:] or RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            if not passes(release, folder):
                failed.append(release)
    if failed:
        raise SystemExit(f"failed with transformers {', '.join(failed)}")


if __name__ == "__main__":
    main()
