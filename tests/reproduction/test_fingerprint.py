"""What a result depends on: the code of its experiment and the numbers of the library, and not their wording."""

import json
from pathlib import Path

import pytest

from paper import fingerprint
from paper.catalogue import EXPERIMENTS
from paper.experiments import digits

RESULTS = Path(__file__).parents[2] / "docs" / "reproduction" / "results"


def names_of(files):
    return {path.name for path in files}


def test_the_digest_covers_what_an_experiment_imports():
    names = names_of(fingerprint.own_files(Path(digits.__file__)))
    assert {"digits.py", "digits.toml", "mnist.py", "mnist.toml", "protocol.py", "static.py", "vae.py"} <= names
    assert {"training.py", "closed_form.py", "data.py"} <= names
    assert not {"cli.py", "runner.py", "report.py", "protein.py", "results.py", "drawing.py"} & names
    assert len({fingerprint.code_digest(name) for name in ("digits", "mnist", "protein")}) == 3


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "x.py"
    path.write_text('"""A docstring."""\n\nN = 3\n\n\ndef f(n):\n    """Return n."""\n    return n\n')
    return path


def test_the_digest_does_not_depend_on_the_version_of_python(module):
    assert fingerprint._content(module) == (
        "Module(body=[Assign(targets=[Name(id='N', ctx=Store())], value=Constant(value=3)), FunctionDef(name='f', "
        "args=arguments(posonlyargs=[], args=[arg(arg='n')], kwonlyargs=[], kw_defaults=[], defaults=[]), "
        "body=[Return(value=Name(id='n', ctx=Load()))], decorator_list=[])], type_ignores=[])"
    )


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (('"""A docstring."""', '"""Another one."""'), True),
        (('    """Return n."""\n', ""), True),
        (("N = 3", "N = 3  # three"), True),
        (("N = 3", "N = 4"), False),
        (("return n", "return n + 1"), False),
    ],
)
def test_the_digest_ignores_comments_and_docstrings(module, change, same):
    before = fingerprint._content(module)
    module.write_text(module.read_text().replace(*change))
    assert (fingerprint._content(module) == before) is same


def test_the_digest_ignores_bands_and_not_published_values(tmp_path):
    path = tmp_path / "x.toml"
    text = '[t]\ntitle = "T"\ncolumns = ["a"]\n[t.rows]\nr = ["0.1"]\n[t.bands]\nr = { a = 0.2, why = "" }\n'
    path.write_text(text)
    before = fingerprint._content(path)
    path.write_text(text.replace("a = 0.2", "a = 0.3"))
    assert fingerprint._content(path) == before
    path.write_text(text.replace("0.1", "0.2"))
    assert fingerprint._content(path) != before


def test_the_fingerprint_has_the_parts_of_the_library_that_an_experiment_uses():
    assert {"run", "StochasticAttention", "metrics", "multihead"} <= set(fingerprint.fingerprint("multihead"))
    assert "multihead" not in fingerprint.fingerprint("mala")
    assert {"sequences", "temperature", "neighbors"} <= set(fingerprint.fingerprint("protein"))
    assert "sequential" in fingerprint.fingerprint("sequence")
    assert all(len(numbers) > 0 for numbers in fingerprint.fingerprint("claims").values())


def test_fingerprints_agree_to_within_rounding_only():
    one = {"run": [1.0, -2.0], "energy": [0.5]}
    assert fingerprint.same(one, {"run": [1.0 + 1e-9, -2.0], "energy": [0.5]})
    assert not fingerprint.same(one, {"run": [1.0 + 1e-4, -2.0], "energy": [0.5]})
    assert not fingerprint.same(one, {"run": [1.0, -2.0]})
    assert not fingerprint.same(None, one)
    assert fingerprint.differing(one, {"run": [1.0, -2.0], "energy": [0.6]}) == ["energy"]


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_the_results_on_the_page_are_those_of_the_present_code(name):
    """If this fails: `python -m paper run NAME`, then `python -m paper report`."""
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    current = fingerprint.fingerprint(name)
    assert record["code"] == fingerprint.code_digest(name)
    assert fingerprint.same(record["fingerprint"], current), fingerprint.differing(record["fingerprint"], current)
