"""Work on a real cluster: a scheduler and two worker processes on this machine."""

import io
import os
import re
import shutil
import signal
import sys
from concurrent.futures import CancelledError

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from test_mapped import memories
from typer.testing import CliRunner

import stochattn as sa
from stochattn import MemoryBank, conditioning, neighbors, temperature
from stochattn import energy as E
from stochattn._backend.checks import InputError
from stochattn.cli import build_app
from stochattn.kinds import registry as part_files
from stochattn.kinds.codec import Settings
from stochattn.kinds.summary import read_summary
from stochattn.storage import dask as cluster
from stochattn.storage import dask as dask_rows
from stochattn.storage import mapped
from stochattn.synthesizer import parts

FEW = {"n_chains": 4, "n_steps": 40, "warmup": 0, "thin": 10, "rng": 1}


@pytest.fixture(scope="module")
def local():
    one = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "memory_limit": "1GB"}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),  # a worker waits so long for one that was killed
        LocalCluster(**one, host="127.0.0.1", dashboard_address="127.0.0.1:0") as started,
    ):
        yield started


@pytest.fixture
def client(local):
    with Client(local) as connected:
        connected.wait_for_workers(2, timeout=30)
        yield connected


@pytest.fixture(params=["in the graph", "sent first"])
def sending(request, monkeypatch):
    """Arrays travel within the graph, or, as large ones do, are sent to the workers before it."""
    if request.param == "sent first":
        monkeypatch.setattr(dask_rows, "MAX_GRAPH_BYTES", 64)


def chunked(X, rows=100):
    return da.from_array(X, chunks=(rows, X.shape[1]))


def kill_a_worker(client):
    """Kill the process of one worker; its nanny starts another."""
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def test_energies_and_draws_agree_with_the_bank_in_memory(client, sending):
    X, x = memories() / 2, memories(4, seed=1)
    weights, kept = np.arange(1.0, 301.0), np.arange(5, 280)
    for change in (
        lambda bank: bank,
        lambda bank: conditioning.weight(bank, weights),
        lambda bank: conditioning.subset(bank.normalized(), kept),
    ):
        mine, theirs = change(MemoryBank(chunked(X))), change(MemoryBank(X))
        for f in (E.energy, E.attend, E.entropy):
            np.testing.assert_allclose(f(x, mine, 2.0), f(x, theirs, 2.0), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(neighbors.nearest_memory(x, mine)[0], neighbors.nearest_memory(x, theirs)[0])
        models = (sa.StochasticAttention(bank, 2.0, equal_weights=True) for bank in (mine, theirs))
        drawn, expected = (model.sample(500, rng=0) for model in models)
        assert np.array_equal(drawn.compute(), expected)


def test_rules_agree_with_the_bank_in_memory(client, monkeypatch):
    monkeypatch.setattr(mapped, "MAX_SMALL_NUMBERS", 100)
    X = memories() / 2
    for rule in (temperature.natural, temperature.leave_one_out):
        assert rule(chunked(X)) == pytest.approx(rule(X), rel=1e-5)


def test_a_killed_worker_changes_no_chain(client, sending):
    sampler = "mala"
    bank = conditioning.weight(MemoryBank(chunked(memories(300, 8) / 2)), np.arange(1.0, 301.0))
    with dask.config.set(scheduler="sync"):
        expected = sa.run(bank, 2.0, sampler=sampler, **FEW)
    killed = []

    def kill(step, states):
        if step == 20:
            killed.append(kill_a_worker(client))

    found = sa.run(bank, 2.0, sampler=sampler, on_keep=kill, **FEW)
    assert killed
    for name in ("samples", "energies", "basins", "acceptance"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_vectors_that_a_restarted_cluster_forgot_are_sent_again(client, monkeypatch):
    monkeypatch.setattr(dask_rows, "MAX_GRAPH_BYTES", 64)
    bank, x = MemoryBank(chunked(memories()), np.log(np.arange(1.0, 301.0))), memories(4, seed=1)
    before = E.energy(x, bank, 2.0)
    (placed,) = bank.patterns._placed
    client.restart(timeout=30)
    np.testing.assert_array_equal(E.energy(x, bank, 2.0), before)
    assert bank.patterns._placed[-1].parts is not placed.parts


def test_vectors_are_sent_once_and_few_are_kept(client, monkeypatch):
    monkeypatch.setattr(dask_rows, "MAX_GRAPH_BYTES", 64)
    bank, x = MemoryBank(chunked(memories()), np.log(np.arange(1.0, 301.0))), memories(4, seed=1)
    E.energy(x, bank, 2.0)
    (placed,) = bank.patterns._placed
    for _ in range(2):
        E.attend(x, bank, 2.0)
    assert [one.parts for one in bank.patterns._placed] == [placed.parts]
    for _ in range(4):
        neighbors.nearest_memory(x, bank)
    assert len(bank.patterns._placed) == dask_rows.MAX_VECTORS


@pytest.mark.parametrize(
    ("reported", "said"),
    [("0.0.1", "has stochattn 0.0.1"), (ModuleNotFoundError("stochattn"), "cannot import stochattn")],
)
def test_workers_with_another_version_are_refused(client, monkeypatch, reported, said):
    monkeypatch.setattr(client, "run", lambda *_, **__: {"tcp://one:1": sa.__version__, "tcp://two:2": reported})
    with pytest.raises(InputError, match=rf"^worker tcp://two:2 {said}, and this process has .* pip install") as error:
        MemoryBank(chunked(memories()))
    assert "\n" not in str(error.value)


def test_a_scheduler_that_cannot_be_reached(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    rule = "^scheduler 'tcp://127.0.0.1:9' cannot be reached .*dask scheduler"
    with pytest.raises(InputError, match=rule), cluster.connect("tcp://127.0.0.1:9"):
        pass


def test_the_demonstration_on_a_small_bank(client, tmp_path, capsys):
    from examples import cluster as demo

    demo.demonstrate(client, tmp_path, 2000, 8, 500)
    printed = capsys.readouterr().out
    assert printed.count("peak memory of worker") == 2
    new, bank = (da.from_zarr(tmp_path / name).compute() for name in ("new.zarr", "bank.zarr"))
    model = sa.StochasticAttention(bank, beta=10.0, equal_weights=True)
    assert np.array_equal(new, model.sample(500, rng=0))
    assert f"mean log density {model.log_density(new[:64]).mean():.1f}" in printed


N = 10_000  # rows, in blocks of 4,096


@pytest.fixture
def patients(tmp_path, monkeypatch):
    """A table to draw from, in the current folder; each part of a result holds one block."""
    monkeypatch.setattr(parts, "BLOCKS_PER_PART", 1)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(1, 61), "age": rng.integers(20, 80, 60), "sex": rng.choice(["F", "M"], 60)}
    pd.DataFrame(columns | {"bmi": rng.normal(25, 4, 60).round(1)}).to_csv("patients.csv", index=False)
    return tmp_path / "patients.csv"


def command(*words):
    return CliRunner().invoke(build_app(), ["sample", *map(str, words)])


def refused(*words):
    """The one line that a command fails with; it leaves nothing behind."""
    before = sorted(os.listdir())
    result = command(*words)
    assert result.exit_code in (1, 2)
    (line,) = result.stderr.strip().splitlines()
    assert sorted(os.listdir()) == before
    return line


@pytest.mark.parametrize("out", ["new.parquet", "new.csv"])
def test_parts_hold_the_rows_of_one_process(client, patients, out):
    options = ("patients.csv", "-n", N, "--seed", 3, "--condition", "sex=F")
    result = command(*options, "--scheduler", client.scheduler.address, "-o", out)
    assert result.exit_code == 0, result.output
    assert command(*options, "-o", f"one-{out}").exit_code == 0
    names = sorted(os.listdir(out))
    assert names == ["_summary.json", *(f"part-{p:05d}{os.path.splitext(out)[1]}" for p in range(3))]
    read = pd.read_parquet if out.endswith("parquet") else pd.read_csv
    rows = pd.concat([read(f"{out}/{name}") for name in names[1:]], ignore_index=True)
    if out.endswith("parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(out), rows)  # the whole folder, as pandas reads it
    pd.testing.assert_frame_equal(rows, read(f"one-{out}"))
    found, expected = (vars(read_summary(path)) for path in (out, f"one-{out}"))
    own = {"output", "files", "bytes", "sha256"}
    assert {k: v for k, v in found.items() if k not in own} == {k: v for k, v in expected.items() if k not in own}
    assert read_summary(out).fits(out)
    synth = sa.fit("patients.csv")
    assert len(part_files.read_new(synth.kind, synth.codec, patients.parent / out)) == N


@pytest.fixture
def numbers(patients):
    """The numbers of the table alone, some of them missing."""
    frame = pd.read_csv(patients)[["id", "age", "bmi"]]
    frame.loc[::7, "bmi"] = np.nan
    frame.to_csv("numbers.csv", index=False)
    return patients.parent


def contents(folder):
    """The files below a folder, and their bytes, but for the summary."""
    below = (path for path in folder.rglob("*") if path.is_file() and path.name != "_summary.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in below}


def test_workers_write_the_chunks_of_one_array(client, numbers, monkeypatch):
    counted = parts._counts_of_task

    def leave_behind(part, *given):  # as a worker that is killed while it writes a chunk
        (part.path.parent / "c" / "0.1234.partial").touch()
        return counted(part, *given)

    monkeypatch.setattr(parts, "_counts_of_task", leave_behind)
    options = ("numbers.csv", "-n", N, "--seed", 3)
    ways = {"cluster": ("--scheduler", client.scheduler.address), "jobs": ("--jobs", 2), "one": ()}
    for name, words in ways.items():
        result = command(*options, *words, "-o", f"{name}.zarr")
        assert result.exit_code == 0, result.output
    new, *others = (contents(numbers / f"{name}.zarr") for name in ways)
    assert sorted(new) == ["c/0/0", "c/1/0", "c/2/0", "zarr.json"]
    assert new == others[0] == others[1]
    rows = da.from_zarr(str(numbers / "cluster.zarr"))
    assert rows.shape == (N, 3)
    expected = sa.fit("numbers.csv").sample(N, rng=3)[["age", "bmi"]].to_numpy(dtype=float)
    np.testing.assert_array_equal(rows[:, 1:].compute(), expected)
    np.testing.assert_array_equal(rows[:, 0].compute(), np.arange(61, 61 + N))
    found, *same = (vars(read_summary(f"{name}.zarr")) for name in ways)
    assert all({**found, "output": ""} == {**one, "output": ""} for one in same)


def test_workers_write_npy_parts(client, numbers):
    options = ("numbers.csv", "-n", N, "--seed", 3)
    assert command(*options, "--scheduler", client.scheduler.address, "-o", "new.npy").exit_code == 0
    assert command(*options, "-o", "one.npy").exit_code == 0
    names = sorted(os.listdir("new.npy"))
    assert names == ["_summary.json", *(f"part-{p:05d}.npy" for p in range(3))]
    rows = np.concatenate([np.load(f"new.npy/{name}") for name in names[1:]])
    np.testing.assert_array_equal(rows, np.load("one.npy"))
    result = CliRunner().invoke(build_app(), ["inspect", "new.npy"])
    assert result.exit_code == 0, result.output
    assert f"{N:,} (table)" in result.stdout


def test_arrays_that_workers_cannot_write(client, numbers, monkeypatch):
    words = ("numbers.csv", "-n", 50, "--scheduler", client.scheduler.address)
    unknown = refused(*words, "-o", "new.music")
    assert unknown.startswith("error: -o 'new.music' must have an extension that names the format of table data")
    assert ".zarr" in unknown
    assert "column 'sex' is not numeric" in refused("patients.csv", *words[1:], "-o", "new.zarr")
    (numbers / "new.zarr").mkdir()
    (numbers / "new.zarr" / "mine").touch()
    assert "is not an empty folder" in refused(*words, "-o", "new.zarr")
    assert "holds no summary of an earlier run" in refused(*words, "--replace", "-o", "new.zarr")
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert refused(*words, "-o", "other.zarr") == (
        "error: Zarr arrays need zarr, which is not installed: pip install 'stochattn[dask]'."
    )


WITHOUT_ZARR = "import sys; sys.modules['zarr'] = None"
WITH_ZARR = "import sys; del sys.modules['zarr']"


def test_workers_without_zarr(client, numbers):
    client.run(exec, WITHOUT_ZARR, {})
    try:
        line = refused("numbers.csv", "-n", 50, "--scheduler", client.scheduler.address, "-o", "new.zarr")
    finally:
        client.run(exec, WITH_ZARR, {})
    assert "Zarr arrays need zarr, which is not installed" in line


def test_a_folder_of_parts_is_replaced_by_its_own_kind_only(client, patients):
    synth, given = sa.fit(patients), {"rng": 0, "scheduler": client.scheduler.address}
    synth.write("new.csv", 50, **given)
    with pytest.raises(InputError, match="is not an empty folder"):
        synth.write("new.csv", 60, **given)
    assert synth.write("new.csv", 60, replace=True, **given).n == 60
    (patients.parent / "new.csv" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes.txt', which an earlier run did not write"):
        synth.write("new.csv", 50, replace=True, **given)


def test_a_killed_worker_changes_no_part(client, patients, monkeypatch):
    counted, killed = parts._counts_of_task, []

    def kill_and_count(*given):
        if not killed:
            killed.append(kill_a_worker(client))
        return counted(*given)

    monkeypatch.setattr(parts, "_counts_of_task", kill_and_count)
    synth = sa.fit(patients)
    summary = synth.write("new.csv", 4 * N, rng=0, scheduler=client.scheduler.address)
    one = synth.write("one.csv", 4 * N, rng=0)
    assert killed
    assert (summary.n, summary.novelty, summary.copies) == (one.n, one.novelty, one.copies)
    rows = pd.concat([pd.read_csv(path) for path in sorted(patients.parent.glob("new.csv/part-*"))], ignore_index=True)
    pd.testing.assert_frame_equal(rows, pd.read_csv("one.csv"))
    assert not [name for name in os.listdir("new.csv") if name.startswith(".")]


FULL = """
import errno, stochattn.synthesizer.parts as parts
write = parts.write_items
def full(synth, batches, stream, *given):
    batches = list(batches)
    if batches[0].first:
        stream.write(b"half of a part")
        raise OSError(errno.ENOSPC, "No space left on device", stream.name)
    return write(synth, batches, stream, *given)
parts.write_items, parts.enough_room = full, write
"""
FREE = "from stochattn.synthesizer import parts; parts.write_items = parts.enough_room"


def test_a_full_disk_of_a_worker(client, patients, monkeypatch):
    removed, remove = [], parts._remove
    monkeypatch.setattr(parts, "_remove", lambda folder: removed.append(folder.name) or remove(folder))
    client.run(exec, FULL, {})
    try:
        line = refused("patients.csv", "-n", N, "--scheduler", client.scheduler.address, "-o", "new.csv")
    finally:
        client.run(exec, FREE, {})
    assert re.search(r"No space left on device \(.*part-0000\d.*\); no output was changed", line)
    assert removed == ["new.csv"]


def test_a_folder_is_removed_although_a_worker_finishes_a_file_in_it(tmp_path, monkeypatch):
    folder, rmtree, late = tmp_path / "parts", shutil.rmtree, []
    folder.mkdir()

    def disturbed(path, **options):
        rmtree(path, **options)
        if not late:
            late.append(path.mkdir())

    monkeypatch.setattr(parts.shutil, "rmtree", disturbed)
    parts._remove(folder)
    assert late
    assert not folder.exists()


def test_counts_of_parts_join_to_those_of_one_process(patients):
    synth = sa.fit(patients)
    csv, settings = synth.kind.formats[0], Settings(0, synth.choice.name, "")

    def counted(blocks):
        return parts.write_items(synth, synth.batches(N, 0, blocks=blocks), io.BytesIO(), csv, settings)

    joined, whole = counted(range(1)), counted(None)
    joined.join(counted(range(1, 3)))
    assert joined == whole
    assert (whole.n, whole.measured) == (N, parts.MAX_MEASURED)


def test_workers_that_do_not_share_the_folder(client, patients, monkeypatch):
    real = parts.list_parts
    elsewhere = patients.parent / "not" / "on" / "this" / "machine"
    monkeypatch.setattr(parts, "list_parts", lambda s, n, seed, folder, format: real(s, n, seed, elsewhere, format))
    line = refused("patients.csv", "-n", N, "--scheduler", client.scheduler.address, "-o", "new.csv")
    assert "must see the folder" in line
    assert "on a file system that all share" in line


def test_chains_of_a_bank_on_a_cluster_are_not_divided_again(client):
    bank, options = np.random.default_rng(0).standard_normal((300, 5)), {"n_steps": 20, "keep": [20], "rng": 0}
    shared = sa.run(sa.MemoryBank(chunked(bank)), 2.0, n_chains=40, n_jobs=2, **options)
    np.testing.assert_allclose(shared.samples, sa.run(bank, 2.0, n_chains=40, **options).samples, atol=1e-9)


def test_workers_or_a_scheduler_that_are_gone(client, patients, monkeypatch):
    """A command ends when all workers, or the scheduler, have ended meanwhile; it does not wait for new ones."""
    words = ("patients.csv", "-n", N, "--scheduler", client.scheduler.address, "-o", "new.csv")

    def timed_out(*_):
        raise TimeoutError

    def lost(*_):
        raise CancelledError

    monkeypatch.setattr("distributed.wait", lost)
    assert "was lost. Start it and its workers, and run this again." in refused(*words)
    monkeypatch.setattr("distributed.wait", timed_out)
    information = Client.scheduler_info
    answers = iter([information, information, lambda *_, **__: {"workers": {}}])
    monkeypatch.setattr(Client, "scheduler_info", lambda *a, **k: next(answers)(*a, **k))
    assert "has no workers left. Start some: dask worker" in refused(*words)


def test_a_folder_with_other_files_is_not_one_of_parts(tmp_path):
    for name in ("part-00001.csv", "part-100000.csv", "part-00002.csv", "_summary.json"):
        (tmp_path / name).touch()
    found = [part.name for part in part_files.parts_in(tmp_path)]
    assert found == ["part-00001.csv", "part-00002.csv", "part-100000.csv"]
    (tmp_path / "part-1.png").touch()
    assert part_files.parts_in(tmp_path) == []


def test_commands_without_a_cluster(patients, monkeypatch):
    for address in ("nonsense", "", "http://127.0.0.1:1", "127.0.0.1:abc"):
        line = refused("patients.csv", "-n", 50, "--scheduler", address, "-o", "new.csv")
        assert line == f"error: --scheduler must be an address such as tcp://host:8786; got {address!r}."
    both = refused("patients.csv", "-n", 50, "--scheduler", "tcp://127.0.0.1:9", "--jobs", 2, "-o", "new.csv")
    assert both.startswith("error: --jobs and --scheduler exclude each other")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    words = ("patients.csv", "-n", 50, "--scheduler", "tcp://127.0.0.1:9")
    assert refused(*words, "-o", "new.csv").startswith("error: --scheduler 'tcp://127.0.0.1:9' cannot be reached")
    assert "is standard output, and the workers of a scheduler write parts" in refused(*words, "-o", "-")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "which is not installed: pip install 'stochattn[dask]'." in refused(*words, "-o", "new.csv")


def test_a_cluster_without_workers_or_with_another_version(patients, monkeypatch):
    empty = {"n_workers": 0, "processes": False, "protocol": "tcp", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**empty, host="127.0.0.1") as nobody:
        words = ("patients.csv", "-n", 50, "--scheduler", nobody.scheduler_address, "-o", "new.csv")
        assert f"has no workers. Start some: dask worker {nobody.scheduler_address}." in refused(*words)
        nobody.scale(1)
        nobody.wait_for_workers(1, timeout=30)
        monkeypatch.setattr(Client, "run", lambda *_, **__: {"tcp://one:1": "0.0.1"})
        assert "worker tcp://one:1 has stochattn 0.0.1, and this process has" in refused(*words)
