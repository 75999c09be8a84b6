"""Build the wheel, install it into a clean environment without extras, and run a short program there.

python tests/wheel.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
USE = """
import importlib.util
import numpy as np, pandas as pd
import stochattn as sa

assert "site-packages" in sa.__file__, sa.__file__  # the wheel, not the checkout
assert importlib.util.find_spec("torch") is None  # extras stay optional
rng = np.random.default_rng(0)
frame = pd.DataFrame({"age": rng.integers(20, 80, 40), "dose": rng.normal(5, 1, 40).round(1)})
frame.to_csv("patients.csv", index=False)
synth = sa.fit("patients.csv")
assert (synth.condition(age=40).sample(5, rng=0)["age"] == 40).all()
synth.save("patients.synth")
pd.testing.assert_frame_equal(sa.load("patients.synth").sample(9, rng=1), synth.sample(9, rng=1))
model = sa.StochasticAttention(rng.standard_normal((20, 5)), beta=5.0, equal_weights=True)
assert model.sample(10, rng=0).shape == (10, 5)
print("the library works:", sa.__version__)
"""
COMMANDS = (
    ["--version"],
    ["sample", "patients.csv", "-n", "20", "--condition", "age=40", "-o", "new.csv"],
    ["inspect", "patients.csv"],
    ["report", "patients.csv", "-n", "30", "-o", "report.html"],
)


def main() -> None:
    """Build, install and use."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "wheel", str(ROOT), "--no-deps", "-w", str(place)], check=True)
        (wheel,) = place.glob("stochattn-*.whl")
        venv.create(place / "env", with_pip=True)
        folder_of_programs = place / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        python, program = folder_of_programs / "python", folder_of_programs / "stochattn"
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", str(wheel)]
        subprocess.run(install, check=True, cwd=place)
        subprocess.run([str(python), "-c", USE], check=True, cwd=place)
        for command in COMMANDS:
            subprocess.run([str(program), *command], check=True, cwd=place, stdout=subprocess.DEVNULL)
        written = {path.name for path in place.iterdir()}
        assert {"new.csv", "new.csv.json", "report.html"} <= written, written
        print(f"{wheel.name} works in a clean environment")


if __name__ == "__main__":
    main()
