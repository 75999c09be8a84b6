"""The contract of a kind of data, tested for built-in kinds and for a registered kind."""

import json
import zipfile

import joblib
import numpy as np
import pytest
from plugins import EXAMPLES
from typer.testing import CliRunner

import stochattn as sa
from stochattn.cli import build_app
from stochattn.kinds import InputError, kind_names
from stochattn.kinds.codec import Settings
from stochattn.kinds.registry import kind_of, read_new
from stochattn.kinds.summary import read_summary
from stochattn.synthesizer import drawing, parts

N = 12


def same(synth, first, second):
    """Whether two sets of items are equal in every value."""
    return len(first) == len(second) and synth.kind.measures.same(synth.codec, first, second).all()


def run(*words):
    return CliRunner().invoke(build_app(), [str(word) for word in words])


def parsed(synth, text):
    return synth.kind.parse_condition(synth.codec, [text])


def meets(example, new):
    """Whether each new item has the conditioned value: exactly, or to the last digits of a floating point number."""
    values = np.asarray(example.value(new))
    if values.dtype.kind == "f":
        return bool((np.abs(values - example.expected) < 1e-14).all())
    return bool((values == example.expected).all())


def sources(synth, n, seed=0):
    """The stored item that each of n new ones was drawn around."""
    return np.concatenate([batch.source for batch in synth.batches(n, seed)])


def test_every_kind_has_an_example():
    assert {one.kind for one in EXAMPLES} == set(kind_names())


# Sampling


def test_the_kind_is_recognised_and_describes_itself(example, synth):
    assert synth.kind is kind_of(example.kind)
    assert all((synth.kind.item, synth.kind.items, synth.kind.inputs, synth.kind.formats, synth.kind.generators))
    assert synth.describe().summary


def test_samples_repeat_for_a_seed_and_differ_between_seeds(synth):
    first = synth.sample_items(N, 3)
    assert same(synth, first, synth.sample_items(N, 3))
    assert not same(synth, first, synth.sample_items(N, 4))
    assert len(synth.sample(N, rng=3)) == N
    assert synth.codec.features(first).shape == (N, synth.codec.features(synth.codec.stored).shape[1])


def test_fewer_items_are_the_first_of_more(synth, monkeypatch):
    monkeypatch.setattr(drawing, "BLOCK", 16)
    few, more = synth.sample_items(21, 3), synth.sample_items(40, 3)
    assert same(synth, few, synth.codec.take(more, np.arange(21)))


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_workers_draw_the_same_items(example, synth, backend, monkeypatch, tmp_path):
    """Also under a condition, with other workers than jobs, and in files."""
    monkeypatch.setattr(drawing, "BLOCK", 5)
    given = synth.condition(parsed(synth, example.condition))
    with joblib.parallel_config(backend=backend):
        for one in (synth, given):
            assert same(one, one.sample_items(N, 3), one.sample_items(N, 3, n_jobs=2))
        assert len(synth.sample(N, rng=3, n_jobs=3)) == N
        format = synth.kind.formats[0]
        alone, shared = (synth.write(tmp_path / f"{n}{format.extensions[0]}", N, 3, n_jobs=n) for n in (1, 2))
    assert alone.sha256 == shared.sha256
    assert (alone.novelty, alone.near_copies) == (shared.novelty, shared.near_copies)


@pytest.mark.slow
def test_every_generator_samples_what_the_codec_decodes(synth):
    for name in synth.kind.generators:
        other = synth.with_generator(name)
        assert len(other.sample(3, rng=0)) == 3
        assert other.describe().summary


def test_an_unknown_option_names_those_that_exist(source):
    with pytest.raises(InputError, match="nonsense is not an option of"):
        sa.fit(source, nonsense=3)


# Conditions


def test_conditioned_values_come_back_exactly(example, synth):
    for one in (synth, synth.with_generator("hopfield")):
        new = one.condition(parsed(synth, example.condition)).sample(N, rng=1)
        assert meets(example, new)
        assert not meets(example, one.sample(N, rng=1))


def test_an_impossible_condition_is_an_input_error(example, synth):
    with pytest.raises(InputError):
        synth.condition(parsed(synth, example.impossible))


# Subsets and weights


@pytest.mark.slow
def test_all_draws_are_around_the_subset(synth, hopfield):
    chosen = np.arange(synth.codec.K) < synth.codec.K // 2
    for one in (synth, hopfield):
        only = one.subset(chosen)
        assert chosen[sources(only, 50)].all()
        assert same(one, only.sample_items(5, 0), one.subset(np.flatnonzero(chosen)).sample_items(5, 0))
    with pytest.raises(InputError, match="leaves none"):
        synth.subset(chosen).subset(~chosen)


def test_weights_move_the_shares_to_those_of_the_exact_law(hopfield):
    """20,000 draws: a share that is off by five standard errors, at most 0.018, fails; a ratio of 4 is off by more."""
    chosen = np.arange(hopfield.codec.K) % 3 == 0
    weighted = hopfield.weight(5.0, chosen)
    r = np.where(chosen, 5.0, 1.0)
    expected = r[chosen].sum() / r.sum()  # with unit rows or equal weights, only the given weights count
    assert weighted.generator.source_probabilities()[chosen].sum() == pytest.approx(expected, abs=1e-9)
    share = chosen[sources(weighted, 20_000)].mean()
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)


# Saving, writing and reading


@pytest.mark.slow
def test_a_saved_synthesizer_makes_the_same_draws(example, synth, tmp_path):
    weights = np.arange(synth.codec.K) < synth.codec.K // 2
    for name, one in (
        ("plain", synth),
        ("hopfield", synth.with_generator("hopfield")),
        ("conditioned", synth.condition(parsed(synth, example.condition)).weight(3.0, weights).subset(np.arange(9))),
    ):
        path = tmp_path / f"{name}.synth"
        one.save(path)
        again = sa.load(path)
        assert same(one, one.sample_items(N, 5), again.sample_items(N, 5))
        np.testing.assert_array_equal(again.weights, one.weights)
        assert dict(again.conditions) == dict(one.conditions)
        with np.load(path, allow_pickle=False) as arrays:  # raises for a file with pickled objects
            assert all(not arrays[name].dtype.hasobject for name in arrays.files)
        assert zipfile.is_zipfile(path)


def test_written_files_are_read_back_unchanged(synth, tmp_path):
    items, read_back = synth.sample_items(N, 1), []
    for format in synth.kind.formats:
        written = []
        for name in ("a", "b"):
            out = tmp_path / f"{name}-{format.name}{format.extensions[0]}"
            try:
                summary = synth.write(out, N, rng=1, format=format.name)
            except InputError:  # some formats cannot store these items
                break
            inside = (path for path in out.rglob("*") if path.is_file() and path.name != "_summary.json")
            files = sorted(inside) if out.is_dir() else [out]
            written.append([path.read_bytes() for path in files])
            assert read_summary(out) == summary
        else:
            assert written[0] == written[1]
            if format.max_items is None:
                new = synth.kind.read_new(synth.codec, out)
                np.testing.assert_allclose(synth.codec.features(new), synth.codec.features(items), rtol=1e-9, atol=1e-9)
                read_back.append(format.name)
    assert synth.kind.formats[0].name in read_back


def test_a_folder_of_parts_is_read_as_one_file(synth, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "BLOCK", 5)
    monkeypatch.setattr(parts, "BLOCKS_PER_PART", 1)
    settings, read = Settings(1, synth.choice.name, synth.source), []
    for format in (one for one in synth.kind.formats if one.in_parts and not one.in_chunks):
        folder, one = (tmp_path / f"{name}{format.extensions[0]}" for name in ("parts", "one"))
        folder.mkdir()
        try:
            synth.write(one, N, rng=1)
        except InputError:  # some formats cannot store these items
            continue
        written = parts.list_parts(synth, N, 1, folder, format)
        counts = [parts.write_part(synth, part, format, settings).n for part in written]
        assert len(counts) > 2
        assert sum(counts) == N
        new = [read_new(synth.kind, synth.codec, path) for path in (folder, one)]
        np.testing.assert_array_equal(*map(synth.codec.features, new))
        if format is synth.kind.formats[0] or format.name in ("parquet", "npz", "stockholm"):
            found, expected = map(sa.fit, (folder, one))
            assert found.kind is expected.kind
            assert found.codec.labels == expected.codec.labels
            np.testing.assert_array_equal(*(each.codec.features(each.codec.stored) for each in (found, expected)))
            read.append(format.name)
    assert read


# Evaluation and report


@pytest.mark.slow
def test_evaluation_compares_halves_of_the_stored_items(synth):
    found = synth.evaluate(n=20)
    assert 0 <= found.train_proximity <= 1
    assert str(found)


@pytest.mark.slow
@pytest.mark.usefixtures("unrendered_figures")
def test_a_report_is_one_escaped_page(example, tmp_path):
    folder = tmp_path / "<script>pwned"
    folder.mkdir()
    path = example.write(folder)
    result = run("report", path, "-n", 25, "-o", tmp_path / "page.html", "--quick")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "&lt;script&gt;pwned" in page
    assert "<script>pwned" not in page
    assert sa.fit(path).report(tmp_path / "b.html", n=20, quick=True) == tmp_path / "b.html"


# The command line


@pytest.mark.slow
def test_the_command_line_samples_inspects_and_reports(example, synth, source, tmp_path):
    format = next(one for one in synth.kind.formats if not one.is_folder and one.max_items is None)
    out = tmp_path / f"new{format.extensions[0]}"
    result = run("sample", source, "-n", N, "--seed", 2, "--condition", example.condition, "-o", out)
    assert result.exit_code == 0, result.output
    assert f"{N} new {synth.kind.items} from {synth.codec.K} stored, seed 2" in result.stderr
    facts = json.loads((tmp_path / f"{out.name}.json").read_text())
    assert (facts["kind"], facts["n"], facts["conditions"]) == (example.kind, N, [example.condition])
    expected = synth.condition(parsed(synth, example.condition)).sample_items(N, 2)
    new = synth.kind.read_new(synth.codec, out)
    np.testing.assert_allclose(synth.codec.features(new), synth.codec.features(expected), rtol=1e-9, atol=1e-9)
    result = run("inspect", source)
    assert result.exit_code == 0, result.output
    assert f"{synth.codec.K} ({example.kind})" in result.stdout
    result = run("report", source, out, "-o", tmp_path / "page.html", "--quick")
    assert result.exit_code == 0, result.output
    assert example.condition in (tmp_path / "page.html").read_text("utf-8")


def test_wrong_use_is_one_line_and_exit_code_2(example, source, tmp_path):
    for words in (("--condition", example.impossible), ("--format", "music"), ("--generator", "music")):
        out = tmp_path / f"new{kind_of(example.kind).formats[0].extensions[0]}"
        result = run("sample", source, *words, "-o", out)
        assert result.exit_code == 2, result.output
        assert len(result.stderr.strip().splitlines()) == 1
        assert result.stderr.startswith("error: ")
        assert not out.exists()


def test_help_shows_the_kind_and_its_options(synth):
    shown = "".join(
        CliRunner().invoke(build_app(), ["sample", "--help"], env={"COLUMNS": "400"}).stdout.split()
    ).replace("│", "")
    assert "".join(synth.kind.inputs.split()) in shown
    assert "".join(synth.kind.condition_help.split()) in shown
    from stochattn.kinds.options import option_fields

    for declared in (synth.kind.codec_options, *synth.kind.generators.values()):
        for name, about in option_fields(declared).items():
            flag = f"--{about.flag or name.replace('_', '-')}".replace("----", "--")
            assert (flag in shown) is not about.python_only
