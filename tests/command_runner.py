"""Running of commands for the tests of the command line."""

from typer.testing import CliRunner

import stochattn as sa
from stochattn.cli import build_app

APP = build_app()
KINDS = {"protein": "new.fasta", "image": "new.npz", "table": "new.csv", "returns": "new.csv", "signals": "new.ts"}


def run(*words):
    return CliRunner().invoke(APP, [str(word) for word in words])


def works(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words, code=2):
    """The error message, which must be one line."""
    result = run(*words)
    assert result.exit_code == code, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    assert "Traceback" not in result.output
    return lines[0]


def read_new(source, path):
    """New items from a written file, in the form of the library."""
    synth = sa.fit(source)
    return synth.codec.to_user(synth.kind.read_new(synth.codec, path))
