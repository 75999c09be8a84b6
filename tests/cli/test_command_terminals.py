"""Commands under unusual terminals, locales and interpreter options."""

import os
import subprocess
import sys

import pytest

from command_runner import works

COMMANDS = """if True:
    import sys
    from stochattn.__main__ import main

    source, out = sys.argv[1:]
    for words in (["sample", "--help"], ["inspect", source, "--png", f"{out}.png"],
                  ["inspect", source, "--json"], ["sample", source, "-n", "3", "-o", f"{out}.csv"]):
        sys.argv = ["stochattn", *words]
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
"""


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({"PYTHONIOENCODING": "ascii", "HOME": None}, []),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"}, []),
        ({"PYTHONIOENCODING": "latin-1"}, []),
        ({"HOME": "/dev/null", "MPLCONFIGDIR": None}, ["-O"]),
        ({"COLUMNS": "64"}, ["-W", "error"]),
        ({"COLUMNS": "64", "PYTHONIOENCODING": "latin-1"}, []),
    ],
    ids=["ascii, no home", "C, dumb", "latin-1", "home is not a folder, -O", "64 columns, -W error", "64, latin-1"],
)
def test_commands_work_under(environment, options, inputs, tmp_path):
    source = tmp_path / "café.csv"
    source.write_bytes(inputs["table"].read_bytes().replace(b"height", "größe".encode()))
    surroundings = {name: value for name, value in os.environ.items() if name not in environment}
    surroundings |= {name: value for name, value in environment.items() if value is not None}
    command = [sys.executable, *options, "-c", COMMANDS, source, tmp_path / "new"]
    done = subprocess.run(command, env=surroundings, capture_output=True, timeout=120)
    said = done.stderr.decode("latin-1")
    assert done.returncode == 0, said
    lines = [
        line for line in said.splitlines() if not line.endswith((" so far", " left", " %)"))
    ]  # progress on a busy machine
    assert lines[0] == "3 new rows from 40 stored, seed 0", said  # and nothing that a library says before
    shown = done.stdout.decode("latin-1")
    assert "natural" in shown
    assert '"K": 40' in shown
    if "COLUMNS" in environment:
        printed = done.stdout.decode(environment.get("PYTHONIOENCODING", "utf-8"))
        assert max(map(len, printed.partition('{"')[0].splitlines())) == 64


def test_names_cannot_control_the_terminal(tmp_path):
    """A terminal obeys ESC and the one-byte CSI, U+202E turns the line round, and a line break would forge a line."""
    source = tmp_path / "a\x1b[2Jb.csv"
    rows = (f"{i * 37 % 101},{i * 53 % 97},{i * 37 % 101 + i * 53 % 97}" for i in range(60))
    source.write_text("\n".join(['x\x1b[31m,y\x9bm\u202e,"z\nerror: forged"', *rows]), encoding="utf-8")
    new = tmp_path / "new.csv"
    for words in (["inspect", source], ["inspect", source, "--json"], ["sample", source, "-o", new, "--json"]):
        result = works(*words)
        shown = (result.stdout + result.stderr).replace("\n", "")
        assert shown.isprintable(), [c for c in shown if not c.isprintable()]
        assert not any(line.startswith("error") for line in result.output.splitlines())
        assert r"\x1b[31m" in shown or r"\u001b[31m" in shown
    assert "y\x9bm\u202e" in new.read_text("utf-8")  # data is not a message
