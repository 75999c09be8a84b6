"""Work on a real cluster: a scheduler and two worker processes on this machine."""

import os
import signal

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import stochattn as sa
from stochattn import MemoryBank, conditioning, neighbors, temperature
from stochattn import energy as E
from stochattn._backend import cluster
from stochattn._backend.checks import InputError
from stochattn.storage import dask_rows, mapped
from test_mapped import memories

FEW = {"n_chains": 4, "n_steps": 40, "warmup": 0, "thin": 10, "rng": 1}


@pytest.fixture(scope="module")
def local():
    one = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "memory_limit": "1GB"}
    with LocalCluster(**one, host="127.0.0.1", dashboard_address=None) as started:
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
    for address in ("tcp://127.0.0.1:9", "nothing://here"):
        with (
            pytest.raises(InputError, match=f"^scheduler '{address}' cannot be reached .*dask scheduler"),
            cluster.connected(address),
        ):
            pass
