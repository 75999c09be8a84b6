"""Folders of parts and Zarr arrays: written without a cluster, and read as any other input."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import zarr

import stochattn as sa
from command_runner import refused, works
from made_items import family, write_fasta, write_prices, write_table
from stochattn.kinds import InputError
from stochattn.kinds.codec import ZARR, Format, Settings
from stochattn.kinds.registry import kind_of, parts_in
from stochattn.kinds.summary import read_summary
from stochattn.synthesizer import drawing, parts

N = 45  # rows, in blocks of 10
BLOCKS_PER_PART = parts.BLOCKS_PER_PART


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Blocks of 10 rows, parts of two blocks, and chunks of as many rows as a part at most."""
    monkeypatch.setattr(drawing, "BLOCK", 10)
    monkeypatch.setattr(parts, "BLOCKS_PER_PART", 2)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def numbers(tmp_path):
    """A table of numbers, some of them whole, with missing cells in one column and identifiers in another."""
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(1, 61), "age": rng.integers(20, 80, 60), "bmi": rng.normal(25, 4, 60).round(1)}
    frame = pd.DataFrame(columns | {"visits": rng.poisson(3, 60)}).astype({"visits": "Int64"})
    frame.loc[::7, "visits"] = pd.NA
    frame.to_csv("numbers.csv", index=False)
    return tmp_path / "numbers.csv"


def write_in_parts(synth, n, folder):
    """Write a folder of parts as the workers of a cluster do, in this process."""
    format = next(one for one in synth.kind.formats if folder.suffix in one.extensions)
    folder.mkdir()
    for part in parts.list_parts(synth, n, 0, folder, format):
        parts.write_part(synth, part, format, Settings(0, synth.choice.name, synth.source))
    return folder


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.parquet"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_a_table_in_parts_is_the_table_of_one_file(tmp_path, name, encoding):
    frame = pd.read_csv(write_table(tmp_path / "plain.csv"))
    frame.insert(0, 'a "name"\nof two lines, é', [f"ü{i % 3}" for i in range(len(frame))])
    frame.to_csv("patients.csv", index=False, encoding=encoding)
    synth = sa.fit("patients.csv")
    folder = write_in_parts(synth, N, tmp_path / name)
    synth.write(f"one-{name}", N, rng=0)
    assert len(list(folder.iterdir())) == 3
    found, expected = (sa.fit(path, kind="table").codec.state() for path in (folder, f"one-{name}"))
    assert found.pop("source")[0] == str(folder)
    assert expected.pop("source")[0] == f"one-{name}"
    np.testing.assert_equal(found, expected)


def test_commands_take_a_folder_of_parts(tmp_path):
    synth = sa.fit(write_table(tmp_path / "patients.csv"))
    folder = write_in_parts(synth, N, tmp_path / "new.csv")
    assert f"{N} (table)" in works("inspect", folder).stdout
    works("sample", folder, "-n", 20, "-o", "again.csv")
    works("report", folder, "-n", 20, "--quick", "-o", "page.html")
    works("report", "patients.csv", folder, "--quick", "-o", "other.html")
    assert read_summary("again.csv").stored == N
    assert len(pd.read_csv("again.csv")) == 20


def test_parts_are_files_of_one_format_in_the_order_of_their_numbers(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    for number in (100000, 2, 99999):
        (folder / f"part-{number:05d}.csv").write_text("")
    names = ["part-00002.csv", "part-99999.csv", "part-100000.csv"]
    assert [part.name for part in parts_in(folder)] == names
    for other in ("part-00003.tsv", "notes.txt"):
        (folder / other).write_text("")
        assert parts_in(folder) == []
        (folder / other).unlink()
    assert len(parts_in(folder)) == 3
    assert parts_in(tmp_path / "nothing") == []


def test_parts_with_other_columns_are_one_line(tmp_path):
    folder = write_in_parts(sa.fit(write_table(tmp_path / "patients.csv")), N, tmp_path / "new.csv")
    (folder / "part-00001.csv").write_text("height,age\n170,30\n")
    line = refused("inspect", folder)
    assert "part-00001.csv: its first line is not that of part-00000.csv" in line


def test_a_part_that_does_not_end_its_last_line_keeps_its_rows(tmp_path):
    folder = write_in_parts(sa.fit(write_table(tmp_path / "patients.csv")), N, tmp_path / "new.csv")
    part = folder / "part-00000.csv"
    part.write_text(part.read_text().rstrip("\n"))
    assert sa.fit(folder).codec.K == N


def test_a_part_without_rows_adds_none(tmp_path):
    (folder := tmp_path / "ages.csv").mkdir()
    for part, rows in enumerate((range(20, 45), (), range(50, 59))):
        (folder / f"part-0000{part}.csv").write_text("".join(f"{row}\n" for row in ("age", *rows)))
    found = sa.fit(folder).codec
    assert found.K == 34
    assert not found.stored.isna().any(axis=None)


def test_a_short_line_of_the_first_part_is_found_there(tmp_path):
    (folder := tmp_path / "pairs.csv").mkdir()
    for part, lines in enumerate((["a,b", "1,2", "3", "4,5"], ["a,b", "6,7", "8,9"])):
        (folder / f"part-0000{part}.csv").write_text("\n".join([*lines, ""]))
    assert "part-00000.csv, line 3: has 1 value where the first line has 2" in refused("inspect", folder)


def test_a_table_without_names_in_parts(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt("plain.csv", rng.normal(size=(30, 3)).round(3), delimiter=",", fmt="%.3f")
    folder = write_in_parts(sa.fit("plain.csv"), N, tmp_path / "new.csv")
    assert sa.fit(folder).codec.K == N


def test_an_alignment_in_parts(tmp_path):
    codes = family(K=20, L=24)
    synth = sa.fit(write_fasta(tmp_path / "family.fasta", codes))
    folder = write_in_parts(synth, N, tmp_path / "new.fasta")
    found = sa.fit(folder).codec
    assert found.K == N
    assert found.stored.shape == (N, 24)
    write_fasta(folder / "part-00001.fasta", codes[:, :20])
    line = refused("inspect", folder)
    assert "part-00001.fasta has 20 columns, and part-00000.fasta has 24: sequences must be aligned" in line


def test_parts_hold_16_blocks_each(monkeypatch):
    monkeypatch.setattr(parts, "BLOCKS_PER_PART", BLOCKS_PER_PART)  # as it is outside of these tests
    synth, csv = SimpleNamespace(block_size=4096), Format("csv", (".csv",))
    found = parts.list_parts(synth, 140_000, 0, Path(), csv)
    assert [part.blocks for part in found] == [range(16), range(16, 32), range(32, 35)]


class Written:
    """A task that has written its part, and left an unfinished file of another attempt behind."""

    def __init__(self, synth, part, format, settings, unfinished):
        self.counts = parts.write_part(synth, part, format, settings)
        part.path.with_name(unfinished).touch()

    def result(self):
        return self.counts


@pytest.mark.parametrize("format", ["csv", "zarr"])
def test_what_killed_workers_leave_behind_is_removed(numbers, tmp_path, monkeypatch, format):
    synth, folder, lines = sa.fit(numbers), tmp_path / "new", []
    form = {**{one.name: one for one in synth.kind.formats}, "zarr": ZARR}[format]
    settings, unfinished = (
        Settings(0, synth.choice.name, ""),
        "0.12.partial" if form.in_chunks else ".part-00000.csv.12",
    )
    folder.mkdir()
    if form.in_chunks:
        parts.create_array(synth, N, 0, settings, folder)
    monkeypatch.setattr(
        parts, "_submit", lambda client, *given: [Written(given[0], one, *given[2:], unfinished) for one in given[1]]
    )
    monkeypatch.setattr(parts, "_wait_for_some", lambda client, futures: futures[:1])  # one after the other
    client = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://here"))
    progress = SimpleNamespace(update=lines.append)
    counts = parts.write_parts(synth, N, 0, form, settings, folder, client, progress)
    assert (counts.n, lines) == (N, [20, 40, 45])
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    expected = [f"part-0000{p}.csv" for p in range(3)] if format == "csv" else ["c/0/0", "c/1/0", "c/2/0", "zarr.json"]
    assert found == expected


def test_a_folder_is_removed_once_no_file_is_added_to_it(tmp_path, monkeypatch):
    """The first attempt fails, because a file appears after the folder was emptied."""
    folder, rmdir, late = tmp_path / "parts", os.rmdir, []
    folder.mkdir()

    def disturbed(path, **options):
        if not late:
            late.append((folder / "part-00000.csv").touch())
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", disturbed)
    parts._remove(folder)
    assert late
    assert not folder.exists()


# Zarr


def test_a_table_of_numbers_as_a_zarr_array(numbers, monkeypatch):
    monkeypatch.setattr(parts, "MAX_CHUNK_BYTES", 2 * 10 * 4 * 8)
    works("sample", numbers, "-n", N, "--seed", 3, "-o", "new.zarr")
    works("sample", numbers, "-n", N, "--seed", 3, "-o", "new.npy")
    array = zarr.open_array("new.zarr", mode="r")
    np.testing.assert_array_equal(array[:], np.load("new.npy"))
    assert (array.shape, array.chunks, array.dtype) == ((N, 4), (20, 4), np.float64)
    assert np.isnan(array[:, 3]).any()
    assert array.attrs["columns"] == ["id", "age", "bmi", "visits"]
    assert array.attrs["stochattn"]["seed"] == 3
    assert np.array_equal(array[:, 0], np.load("new.npy")[:, 0])
    assert read_summary("new.zarr").fits("new.zarr")
    again = sa.fit("new.zarr")
    assert (again.kind.name, again.codec.K) == ("table", N)
    assert list(again.codec.stored.columns) == ["id", "age", "bmi", "visits"]
    works("report", numbers, "new.zarr", "--quick", "-o", "page.html")


def test_chunks_hold_whole_blocks_and_parts_whole_chunks(numbers, monkeypatch):
    synth = sa.fit(numbers)
    for blocks_per_part, n_bytes, expected in ((2, 2**22, 20), (16, 4 * 320, 40), (16, 5 * 320, 40), (16, 1, 10)):
        monkeypatch.setattr(parts, "BLOCKS_PER_PART", blocks_per_part)
        monkeypatch.setattr(parts, "MAX_CHUNK_BYTES", n_bytes)
        synth.write("new.zarr", 50, rng=0, replace=True)
        assert zarr.open_array("new.zarr", mode="r").chunks == (expected, 4)


def test_chunks_have_at_most_4_mebibytes(tmp_path, monkeypatch):
    """Blocks of 4,096 rows of 16 numbers have half a mebibyte."""
    kind = SimpleNamespace(as_array=lambda codec, items, first: items, array_attributes=lambda codec: {})
    batches = lambda n, seed: iter([SimpleNamespace(items=np.zeros((n, 16)))])  # noqa: E731
    synth = SimpleNamespace(kind=kind, codec=None, block_size=4096, batches=batches)
    monkeypatch.setattr(parts, "BLOCKS_PER_PART", BLOCKS_PER_PART)
    parts.create_array(synth, 10**6, 0, Settings(0, "covariance", ""), tmp_path)
    array = zarr.open_array(tmp_path, mode="r")
    assert (array.shape, array.chunks) == ((10**6, 16), (8 * 4096, 16))


def test_parts_of_an_array_are_chunks_of_it(numbers, tmp_path):
    """Written in any order, as the workers of a cluster do, they are the array that one process writes."""
    synth, folder = sa.fit(numbers), tmp_path / "new.zarr"
    settings = Settings(0, synth.choice.name, synth.source)
    folder.mkdir()
    parts.create_array(synth, N, 0, settings, folder)
    for part in reversed(parts.list_parts(synth, N, 0, folder, ZARR)):
        parts.write_part(synth, part, ZARR, settings)
    synth.write("whole.zarr", N, rng=0)
    np.testing.assert_array_equal(*(zarr.open_array(name, mode="r")[:] for name in ("new.zarr", "whole.zarr")))


def test_whole_numbers_stay_whole(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.integers(0, 9, 50), "b": rng.integers(0, 2, 50) == 1}).to_csv("whole.csv", index=False)
    synth = sa.fit("whole.csv")
    synth.write("new.zarr", N, rng=0)
    array = zarr.open_array("new.zarr", mode="r")
    assert array.dtype == np.int64
    np.testing.assert_array_equal(array[:], synth.sample(N, rng=0).to_numpy(dtype=np.int64))


def test_scenarios_as_arrays(tmp_path):
    write_prices(tmp_path / "prices.csv")
    for output, name in (("returns", "new.zarr"), ("returns", "new.npy"), ("prices", "prices.npy")):
        synth = sa.fit("prices.csv", output=output)
        items = synth.sample_items(N, 0)
        synth.write(name, N, rng=0)
        values = np.load(name) if name.endswith("npy") else zarr.open_array(name, mode="r")[:]
        expected = items if output == "returns" else synth.codec.last_prices * np.exp(np.cumsum(items, axis=1))
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_allclose(synth.kind.read_new(synth.codec, tmp_path / name), items, atol=1e-12)
    assert zarr.open_array("new.zarr", mode="r").attrs["tickers"] == list(synth.codec.tickers)
    np.save("other.npy", values[..., :1])
    with pytest.raises(InputError, match=r"other\.npy: scenarios must be an array of numbers \(n, days, \d+\)"):
        synth.kind.read_new(synth.codec, tmp_path / "other.npy")
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(InputError, match=r"text\.npy cannot be read as an array \(it does not begin"):
        synth.kind.read_new(synth.codec, tmp_path / "text.npy")
    values[1, 2, 0] = np.nan
    np.save("gone.npy", values)
    with pytest.raises(InputError, match=r"gone\.npy: scenarios must be finite numbers"):
        synth.kind.read_new(synth.codec, tmp_path / "gone.npy")


def test_pictures_as_a_zarr_array(tmp_path):
    rng = np.random.default_rng(0)
    np.save("faces.npy", rng.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8))
    works("sample", "faces.npy", "--beta", 20, "-n", N, "-o", "new.zarr")
    works("sample", "faces.npy", "--beta", 20, "-n", N, "-o", "new.npy")
    array = zarr.open_array("new.zarr", mode="r")
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array[:], np.load("new.npy"))
    again = sa.fit("new.zarr")
    assert again.kind.name == "image"
    np.testing.assert_array_equal(again.codec.stored, np.load("new.npy"))
    synth = sa.fit("faces.npy", beta=20.0)
    np.testing.assert_array_equal(synth.kind.read_new(synth.codec, tmp_path / "new.zarr"), array[:])


def test_parts_of_pictures_must_have_one_shape(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "new.npy").mkdir()
    for p, side in enumerate((6, 7)):
        np.save(f"new.npy/part-0000{p}.npy", rng.integers(0, 256, (9, side, 5), dtype=np.uint8))
    assert "part-00001.npy: its images have the shape (7, 5), and those of part-00000.npy (6, 5)" in refused(
        "inspect", "new.npy"
    )


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_or_a_damaged_array_is_one_line(version):
    group = zarr.create_group("group.zarr", zarr_format=version)
    group.create_array("x", data=np.random.default_rng(0).normal(size=(20, 3)))
    assert "group.zarr is a Zarr group, not an array: name one of its arrays, such as group.zarr/NAME." in refused(
        "inspect", "group.zarr"
    )
    assert sa.fit("group.zarr/x").codec.K == 20
    described = "group.zarr/x/zarr.json" if version == 3 else "group.zarr/x/.zarray"
    with open(described, "w") as file:
        file.write("[1]")
    assert "does not describe a Zarr array. Write the array again." in refused("inspect", "group.zarr/x")


def test_an_array_that_cannot_be_read_is_one_line(numbers):
    sa.fit(numbers).write("new.zarr", N, rng=0)
    with open("new.zarr/c/0/0", "wb") as file:
        file.write(b"no chunk")
    assert "new.zarr: is not a Zarr array that can be read (" in refused("inspect", "new.zarr")
    with open("new.zarr/zarr.json") as file:
        about = json.load(file)
    with open("new.zarr/zarr.json", "w") as file:
        json.dump({**about, "shape": [10**9, 4]}, file)
    assert "it holds 32 GB, and at most 4.29 GB are read" in refused("inspect", "new.zarr")


def test_without_zarr(numbers, monkeypatch):
    sa.fit(numbers).write("new.zarr", N, rng=0)
    monkeypatch.setitem(sys.modules, "zarr", None)
    said = "error: Zarr arrays need zarr, which is not installed: pip install 'stochattn[dask]'."
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("stochattn.synthesizer.synthesizer.fit_kind", None)  # it is said before the input is read
        assert refused("sample", numbers, "-o", "other.zarr") == said
    assert refused("inspect", "new.zarr") == said
    assert not (numbers.parent / "other.zarr").exists()


def test_items_that_are_not_numbers(tmp_path):
    write_table(tmp_path / "patients.csv")
    line = refused("sample", "patients.csv", "-o", "new.zarr")
    assert line.startswith("error: format zarr: column 'group' is not numeric")
    assert "Write .csv or .parquet, or leave it out" in line
    (tmp_path / "family.fasta").write_text(">a\nACDE\n>b\nACDF\n")
    for name in ("new.zarr", "new.npy"):
        line = refused("sample", "family.fasta", "-o", name)
        assert f"-o {name!r} is for arrays of numbers, and sequences are not written as such: for protein data" in line
        assert ".fasta" in line
    assert not (tmp_path / "new.zarr").exists()


def test_long_whole_numbers_beside_fractions_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"long": 2**60 + rng.integers(0, 10**9, 30), "x": rng.normal(size=30).round(2)})
    frame.to_csv("long.csv", index=False)
    assert "format zarr: column 'long' has integers of over 15 digits" in refused(
        "sample", "long.csv", "-o", "new.zarr"
    )


def test_an_array_is_replaced_only_if_asked(numbers):
    works("sample", numbers, "-n", N, "-o", "new.zarr")
    assert "is not an empty folder" in refused("sample", numbers, "-n", 20, "-o", "new.zarr")
    assert zarr.open_array("new.zarr", mode="r").shape == (N, 4)
    works("sample", numbers, "-n", 20, "--replace", "-o", "new.zarr")
    assert zarr.open_array("new.zarr", mode="r").shape == (20, 4)


def test_standard_output_takes_no_array(numbers):
    assert "makes a folder, which standard output cannot take" in refused(
        "sample", numbers, "--format", "zarr", "-o", "-"
    )


def test_kinds_without_arrays_say_so():
    with pytest.raises(InputError, match="format zarr holds numbers, and sequences are not: choose another format"):
        kind_of("protein").as_array(None, [], 0)
