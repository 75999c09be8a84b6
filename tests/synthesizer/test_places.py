"""Where new items are written, in one file or in parts, and the summary beside them."""

import hashlib
import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from stochattn.kinds import InputError, Kind, register_kind
from stochattn.kinds.codec import Format, Settings
from stochattn.kinds.registry import kind_of
from stochattn.kinds.summary import as_json, checksum, read_summary, sidecar
from stochattn.synthesizer import parts
from stochattn.synthesizer import writing as output
from stochattn.synthesizer.parts import Counts
from stochattn.synthesizer.writing import output_format, require_writable


@pytest.fixture
def synth():
    """A table of two columns."""
    rng = np.random.default_rng(0)
    return sa.fit(pd.DataFrame({"age": rng.integers(20, 80, 30), "bmi": rng.normal(25, 4, 30).round(1)}))


# Places


def test_a_folder_is_written_without_a_source(tmp_path):
    image, out = kind_of("image"), tmp_path / "new"
    assert output_format(image, 3, str(out)).name == "png"
    out.mkdir()
    assert output_format(image, 3, str(out)).name == "png"  # an empty one


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    (tmp_path / "new").write_text("mine")
    with pytest.raises(InputError, match="is a file, and this format makes a folder"):
        output_format(kind_of("image"), 3, str(tmp_path / "new"), replace=True)


def test_a_folder_inside_the_input_or_around_it_is_refused(tmp_path):
    source = tmp_path / "pictures"
    source.mkdir()
    for out in (source, source / "new", tmp_path):
        with pytest.raises(InputError, match="is the input, contains it or is inside it"):
            require_writable(str(out), True, source, True)
    require_writable(str(tmp_path / "other"), True, source, False)


@pytest.mark.parametrize(("out", "format"), [("new.png", "sheet"), ("new", "png")])
def test_formats_that_cannot_be_written_in_parts_are_named_with_one_that_can(tmp_path, out, format):
    with pytest.raises(InputError, match=f"has the format {format}, and .* name a folder for them, such as new.npz"):
        output_format(kind_of("image"), 3, str(tmp_path / out), in_parts=True)


# Parts


def test_workers_are_asked_for_by_jobs_or_by_a_scheduler(synth, tmp_path):
    with pytest.raises(InputError, match="n_jobs must be left out with a scheduler"):
        output.write_samples(synth, 5, 0, str(tmp_path / "new.csv"), n_jobs=2, scheduler="tcp://127.0.0.1:1")


def in_this_process(monkeypatch, write):
    """Let a function write parts, in place of the workers of a scheduler."""
    monkeypatch.setattr(output, "connect", lambda address: nullcontext(SimpleNamespace(address=address)))
    monkeypatch.setattr(output, "write_parts", write)


def test_a_scheduler_writes_a_folder_of_parts(synth, tmp_path, monkeypatch):
    def write(synth, n, seed, format, settings, folder, client, progress):
        assert client.address == "tcp://127.0.0.1:1"
        (part,) = parts.list_parts(synth, n, seed, folder, format)
        return parts.write_part(synth, part, format, settings)

    in_this_process(monkeypatch, write)
    out = tmp_path / "new.csv"
    summary = output.write_samples(synth, 5, 0, str(out), scheduler="tcp://127.0.0.1:1")
    one = output.write_samples(synth, 5, 0, str(tmp_path / "one.csv"))
    assert sorted(path.name for path in out.iterdir()) == ["_summary.json", "part-00000.csv"]
    assert (out / "part-00000.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert (summary.n, summary.novelty_decoded, summary.rule) == (5, one.novelty_decoded, one.rule)
    assert read_summary(out) == summary
    assert summary.fits(out)


def test_a_folder_that_appears_while_parts_are_written_is_kept(synth, tmp_path, monkeypatch):
    out = tmp_path / "new.csv"

    def write(*given):
        out.mkdir()
        (out / "mine.txt").write_text("mine")
        return Counts()

    in_this_process(monkeypatch, write)
    with pytest.raises(InputError, match="is not an empty folder"):
        output.write_samples(synth, 5, 0, str(out), scheduler="tcp://127.0.0.1:1")
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_a_summary_says_how_beta_was_chosen_and_what_was_measured(synth, tmp_path):
    summary = output.write_samples(synth.with_generator("hopfield"), 5, 0, str(tmp_path / "new.csv"))
    items = synth.kind.read_new(synth.codec, tmp_path / "new.csv")
    assert summary.rule == "natural"
    assert summary.novelty_decoded == pytest.approx(synth.with_generator("hopfield").novelty(items).mean())


def test_blocks_are_divided_among_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "BLOCKS_PER_PART", 2)
    found = parts.list_parts(SimpleNamespace(block_size=10), 45, 7, tmp_path, Format("csv", (".csv",)))
    assert [part.blocks for part in found] == [range(2), range(2, 4), range(4, 5)]
    assert [part.path.name for part in found] == ["part-00000.csv", "part-00001.csv", "part-00002.csv"]
    assert {(part.n, part.seed) for part in found} == {(45, 7)}


def test_a_part_has_its_name_only_when_it_is_complete(synth, tmp_path, monkeypatch):
    (part,) = parts.list_parts(synth, 5, 0, tmp_path, synth.kind.formats[0])
    csv, settings = synth.kind.formats[0], Settings(0, "hopfield", "")
    assert parts.write_part(synth, part, csv, settings).n == 5
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.csv"]
    part.path.unlink()

    def full(synth, batches, stream, *given):
        stream.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(parts, "write_items", full)
    with pytest.raises(OSError, match="No space left"):
        parts.write_part(synth, part, csv, settings)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_this_process_does_not_see_is_an_error(tmp_path):
    part = parts.PartFile(tmp_path / "new.csv" / "part-00000.csv", 5, 0, range(1))
    future = SimpleNamespace(result=Counts)
    with pytest.raises(InputError, match=r"the workers of tcp://a must see the folder .*, on a file system that all"):
        parts._counts_of_task(part, future, "tcp://a")
    part.path.parent.mkdir()
    part.path.touch()
    assert parts._counts_of_task(part, future, "tcp://a") == Counts()


# Summaries


def test_json_has_null_for_numbers_that_it_does_not_know():
    value = {"a": (np.nan, 1.0, [np.inf]), 2: {"b": -np.inf}, "c": "é"}
    assert as_json(value) == '{"a": [null, 1.0, [null]], "2": {"b": null}, "c": "é"}'
    assert json.loads(as_json(value, indent=2)) == json.loads(as_json(value))
    assert as_json({}, indent=2).endswith("\n")


def test_the_summary_of_a_folder_is_inside_it_and_that_of_a_file_beside_it(tmp_path):
    assert sidecar(tmp_path) == tmp_path / "_summary.json"
    assert sidecar(tmp_path / "new.csv") == tmp_path / "new.csv.json"


def test_the_checksum_of_a_folder_is_of_its_visible_files_in_the_order_of_bytes(tmp_path):
    content = {"a.b": b"1", "a/b": b"2", "c": b"3"}  # "." is before "/", and the folder a before the file a.b
    (tmp_path / "a").mkdir()
    expected = hashlib.sha256()
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
        expected.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    assert checksum(tmp_path) == expected.hexdigest()
    (tmp_path / "_summary.json").write_text("{}")
    (tmp_path / ".hidden").write_text("x")
    assert checksum(tmp_path) == expected.hexdigest()
    (tmp_path / "c").write_bytes(b"4")
    assert checksum(tmp_path) != expected.hexdigest()
    assert checksum(tmp_path / "c") == hashlib.sha256(b"4").hexdigest()
    assert checksum(tmp_path / "none") is None


# Kinds


def test_a_kind_without_names_is_not_registered():
    class Nameless(type(kind_of("table"))):
        item = None

    for wrong in (Nameless(), Kind, "table"):
        with pytest.raises(TypeError, match=r"kind must be an instance of stochattn\.kinds\.Kind with name, item and"):
            register_kind(wrong)


def test_standard_output_takes_no_folder():
    with pytest.raises(InputError, match="makes a folder, which standard output cannot take"):
        output_format(kind_of("image"), 3, "-", "png")
    assert output_format(kind_of("image"), 3, "-").name == "npz"
