"""Sharded banks on the threads of one process: what each rank computes, without the time that processes take.

`test_sharded.py` has the same checks with processes, which exchange by gloo. Here threads exchange by a list, so that a
failure shows the line that caused it.
"""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import test_sharded as processes
import torch

import sharded_ranks
import stochattn as sa
from sharded_ranks import BETA, CHAINS, SAMPLERS, STARTS, cut, memory
from stochattn import kernels
from stochattn._backend.arrays import to_numpy
from stochattn.core.memory import fingerprint
from stochattn.core.ranks import ShardedBank
from stochattn.kernels.philox import Philox
from stochattn.nn import ranks as sharded
from stochattn.nn.ranks import ShardedPlan
from stochattn.samplers import exact, plan
from stochattn.storage import ranks as storage


class Threads:
    """Functions of torch.distributed, among threads of this process that are the ranks."""

    def __init__(self, size):
        self.size, self.own = size, threading.local()
        self.sent, self.barrier = [None] * size, threading.Barrier(size, timeout=30)

    def is_available(self):
        return True

    is_initialized = is_available

    def get_rank(self, group):
        return self.own.rank

    def get_world_size(self, group):
        return self.size

    def get_backend_config(self, group):
        return "cpu:gloo"

    def all_reduce(self, total, group):
        total.copy_(sum(self._exchanged(total)))

    def all_gather(self, parts, x, group):
        for part, other in zip(parts, self._exchanged(x), strict=True):
            part.copy_(other)

    def all_to_all_single(self, received, sent, group):
        received.copy_(torch.cat([other.chunk(self.size)[self.own.rank] for other in self._exchanged(sent)]))

    def _exchanged(self, x):
        self.sent[self.own.rank] = x.detach().clone()
        self.barrier.wait()
        everything = list(self.sent)
        self.barrier.wait()  # nobody sends again before all have read
        return everything


@pytest.fixture
def on_ranks(monkeypatch):
    """A function of the number of ranks and of a function of rank and size: its value on every rank."""

    def call(world, function):
        threads = Threads(world)

        def work(rank):
            threads.own.rank = rank
            try:
                return function(world, rank)
            except BaseException:
                threads.barrier.abort()  # the others do not wait for this rank
                raise

        with monkeypatch.context() as patched, warnings.catch_warnings(), ThreadPoolExecutor(world) as pool:
            warnings.simplefilter("ignore")  # filters belong to the process, so that ranks cannot check them here
            patched.setattr(storage, "dist", threads)
            # Until Python 3.12, a cached property locks all instances, so that ranks in it would wait for each other.
            patched.setattr(ShardedPlan, "fingerprint", property(ShardedPlan.fingerprint.func))
            futures = [pool.submit(work, rank) for rank in range(world)]
            errors = [future.exception() for future in futures]
            own = [error for error in errors if error and "did not answer" not in str(error)]
            for error in own or filter(None, errors):
                raise error
            return [future.result() for future in futures]

    return call


@pytest.fixture
def results(on_ranks, world):
    """A function of the name of a part of `sharded_ranks.py`: its results, which are the same on all ranks."""

    def of(part):
        def work(world, rank):
            made = getattr(sharded_ranks, part)(world, rank)
            return {name: to_numpy(x) if isinstance(x, torch.Tensor) else np.asarray(x) for name, x in made}

        first, *others = on_ranks(world, work)
        for other in others:
            for name in [name for name in other if name not in ("layer text", "warned")]:
                np.testing.assert_array_equal(first[name], other[name], err_msg=name)
        return first

    return of


@pytest.fixture(params=(1, 2, 4), ids="{} ranks".format)
def world(request):
    return request.param


def test_functions_are_those_of_one_process(results, monkeypatch):
    monkeypatch.setattr(sharded_ranks, "N_DRAWS", processes.N_DRAWS // 40)
    monkeypatch.setattr(processes, "N_DRAWS", processes.N_DRAWS // 40)
    found = results("functions")
    for dtype in processes.DTYPES:
        processes.test_functions_are_those_of_one_process(found, dtype)
        processes.test_exact_draws_have_the_bits_of_one_process(found, dtype)
    processes.test_any_number_of_states(found)


def test_chains_are_those_of_one_process(results):
    found = results("chains")
    for sampler in SAMPLERS:
        processes.test_chains_are_those_of_one_process(found, sampler)
        processes.test_a_chain_has_the_same_bits_alone_and_in_parts(found, sampler)
    for start in STARTS:
        processes.test_starts_are_those_of_one_process(found, start)
    processes.test_a_masked_memory_is_not_the_nearest(found)


def test_layers_and_gradients_are_those_of_one_process(results):
    processes.test_layers_and_gradients_are_those_of_one_process(results("gradients"))


def test_bad_arguments(results, world):
    found = results("refusals")
    if world > 1:
        processes.test_a_bad_argument_of_one_rank_is_an_error_on_all(lambda world: [found], world)
    for name, message in processes.EVERYWHERE.items():
        assert message in str(found[f"bad {name}"]), name


def test_a_uniform_on_the_border_of_two_shards_picks_the_first_memory_of_the_second(on_ranks):
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    uniforms = np.array([0.0, 0.25, 0.5, 0.75])

    def centers(world, rank):
        bank = ShardedBank(X[2 * rank : 2 * rank + 2], np.zeros(2), None, 1.0, False, None)
        return bank.centers(uniforms, 1.0)

    for found in on_ranks(2, centers):
        np.testing.assert_array_equal(found, X)


def test_a_shard_without_rows_is_never_picked(on_ranks):
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    parts, uniforms = (X[:2], X[:0], X[2:]), np.array([0.1, 0.4, 0.5, 0.7, 0.999])

    def centers(world, rank):
        return ShardedBank(parts[rank], None, None, 1.0, False, None).centers(uniforms, 1.0)

    for found in on_ranks(3, centers):
        np.testing.assert_array_equal(found, X[[0, 1, 2, 2, 3]])


def test_kept_memories_are_numbered_over_all_ranks(on_ranks):
    X, log_r = np.eye(6), np.array([0.0, -np.inf, 0.0, 0.0, -np.inf, 0.0])

    def numbers(world, rank):
        part = slice(2 * rank, 2 * rank + 2)
        return ShardedBank(X[part], log_r[part], None, 1.0, False, None).kept_numbers(np.arange(4))

    for found in on_ranks(3, numbers):
        np.testing.assert_array_equal(found, [0, 2, 3, 5])


def test_gradients_of_attention_come_from_all_ranks(on_ranks):
    rng = np.random.default_rng(0)
    X, xi = (torch.tensor(rng.standard_normal((n, 3))) for n in (5, 4))

    def gradient(world, rank):
        own = xi.clone().requires_grad_()
        bank = ShardedBank(X[: 2 if rank == 0 else 0] if rank < 2 else X[2:], None, None, 2.0, False, None)
        bank.attend(own, 2.0).square().sum().backward()
        return own.grad

    alone = xi.clone().requires_grad_()
    ((2.0 * alone @ X.T).softmax(-1) @ X).square().sum().backward()
    for found in on_ranks(3, gradient):
        torch.testing.assert_close(found, alone.grad)


def test_a_checkpoint_names_the_memories_as_one_process_does(on_ranks, world):
    found = on_ranks(world, lambda world, rank: memory(world, rank).run(**CHAINS).last.memories)
    assert set(found) == {fingerprint(processes.bank())}


def test_a_checkpoint_tells_banks_apart_that_differ_in_one_of_many_multiplicities(on_ranks, monkeypatch):
    """Of 500 memories, 64 are looked at, and all multiplicities: in three blocks here."""
    monkeypatch.setattr(sharded, "BLOCK", 200)
    rng = np.random.default_rng(0)
    X, log_r = rng.standard_normal((500, 3)), rng.standard_normal(500)

    original = ShardedPlan.fingerprint.func

    def name(log_r):
        def work(world, rank):
            own = cut(world, rank, 500)
            bank = ShardedBank(X[own], log_r[own], None, 2.0, False, None)
            plan = SimpleNamespace(bank=bank.outline, sharded=bank)
            return original(plan)

        (found,) = set(on_ranks(2, work))
        return found

    other = log_r.copy()
    other[251] += 1.0
    assert name(log_r) == fingerprint(sa.MemoryBank(X, log_r=log_r))
    assert name(other) == fingerprint(sa.MemoryBank(X, log_r=other))
    assert name(log_r) != name(other)


def test_no_kernel_is_asked_for_memories_that_no_device_has(on_ranks, monkeypatch):
    def chains(*args):
        raise AssertionError(args)

    monkeypatch.setattr(plan, "streams", lambda *args: Philox(*args[:5]))
    monkeypatch.setattr(kernels, "chains", chains)
    (draws,) = on_ranks(1, lambda world, rank: memory(world, rank).run(**CHAINS))
    assert draws.samples.shape == (9, 3, 5)


def test_rank_0_alone_shows_progress(on_ranks, monkeypatch):
    shown = []

    class Bar(sharded.Progress):
        def __init__(self, total, label, shown_here):
            shown.append((label, shown_here))
            super().__init__(total, label, False)

    monkeypatch.setattr(sharded, "Progress", Bar)
    on_ranks(2, lambda world, rank: memory(world, rank).run(**CHAINS, progress=True))
    assert sorted(shown) == [("ula, 9 chains on 2 ranks", False), ("ula, 9 chains on 2 ranks", True)]


def test_rank_0_alone_looks_for_norms_that_dominate(on_ranks, monkeypatch):
    ranks = []
    monkeypatch.setattr(sharded, "warn_if_few", lambda *found: ranks.append(storage.dist.get_rank(None)))
    on_ranks(2, memory)
    assert ranks == [0]


def test_ranks_whose_chains_differ_raise_an_error(on_ranks):
    def run(world, rank):
        def change(step, states):
            states[0, 0] += rank

        return sharded_ranks.line_of(lambda: memory(world, rank).run(**CHAINS, on_keep=change))

    assert all("ranks computed different chains" in line for line in on_ranks(2, run))


def test_draws_need_three_times_their_room(on_ranks, monkeypatch):
    needed = 3 * 10 * 5 * 8  # copies, draws, dimensions, bytes

    def sample(world, rank):
        return sharded_ranks.line_of(lambda: memory(world, rank).sample(10, rng=0))

    for free, message in ((needed, "no error"), (needed - 1, "MemoryError")):
        monkeypatch.setattr(exact, "free_bytes", lambda patterns, free=free: free)
        assert all(line.startswith(message) for line in on_ranks(2, sample))


def test_the_nearest_memory_of_a_state_does_not_depend_on_other_states(on_ranks):
    """Half way between two memories, the last bits decide, which in a plain product depend on the number of rows."""
    rng = np.random.default_rng(0)
    X, k = rng.standard_normal((40, 301)), rng.integers(40, size=(64, 2))
    xi = torch.tensor(X[k].mean(1))

    def nearest(world, rank):
        bank = ShardedBank(X[20 * rank : 20 * rank + 20], None, None, BETA, False, None)
        return bank.nearest(xi), torch.cat([bank.nearest(xi[i : i + 8]) for i in range(0, 64, 8)])

    for together, in_parts in on_ranks(2, nearest):
        np.testing.assert_array_equal(together, in_parts)
        assert all(one in pair for one, pair in zip(together.tolist(), k.tolist(), strict=True))
