"""Processes for the tests of sharded banks: forked from one that has imported torch, which takes two seconds.

Run as `python sharded_ranks.py FOLDER WORLD...`. Rank r of WORLD processes writes its results, one array or text by
name, to FOLDER/WORLD-r.npz; `test_sharded.py` compares them with one process.
"""

import os
import sys
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from banks import ingredients
from closed_form import Mixture
from stochattn import ShardedMemory
from stochattn.nn import HopfieldMemory, stochastic_attention

BETA, K, D = 3.0, 23, 5
CHAINS = {"n_chains": 9, "n_steps": 24, "warmup": 0, "thin": 8, "rng": 4}
MASKED = [3, 22, 1]  # the first two are masked out
START_CHAINS = {"n_chains": 3, "n_steps": 2, "keep": [1], "rng": 4}
STARTS = ("memories", "equilibrium", "sphere", [5, 0, 9])
SAMPLERS = ("ula", "mala", "underdamped")
LAW = {"ula": {"n_steps": 300, "alpha": 0.01}, "mala": {"n_steps": 60, "alpha": 0.1}}
LAW_BETA, LAW_CHAINS = 8.0, 4000
N_DRAWS = 20_000
TIMEOUT = 2.0  # seconds, of the group with a rank that does not answer


def bank_parts(dtype=np.float64):
    """Memories of unequal length, log multiplicities with two masked memories, values, and states."""
    rng = np.random.default_rng(0)
    X, log_r = 0.5 * rng.standard_normal((K, D)), rng.standard_normal(K)
    log_r[MASKED[:2]] = -np.inf
    return X.astype(dtype), log_r, rng.standard_normal((K, 4)).astype(dtype), rng.standard_normal((7, D)).astype(dtype)


def cut(world, rank, n=K):
    """The rows of a rank, of unequal number. The last of four ranks has none; the one before has a masked row alone."""
    cuts = {1: [0, n], 2: [0, n // 3, n], 3: [0, n // 3, n // 2, n], 4: [0, n // 3, n - 1, n, n]}[world]
    return slice(cuts[rank], cuts[rank + 1])


def memory(world, rank, dtype=np.float64, **options):
    X, log_r, values, _ = bank_parts(dtype)
    rows = cut(world, rank)
    return ShardedMemory(torch.tensor(X[rows]), beta=BETA, log_r=log_r[rows], values=values[rows], **options)


def line_of(call):
    """The error of a call, as its type and message."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def functions(world, rank):
    """Values of all functions, in float64 and float32."""
    for dtype in (np.float64, np.float32):
        bank, xi, name = memory(world, rank, dtype), bank_parts(dtype)[-1], np.dtype(dtype).name
        for method in ("attend", "read", "energy", "log_density", "score"):
            yield f"{method} {name}", getattr(bank, method)(xi)
        yield f"hard {name}", bank.attend(xi, beta=np.inf)
        yield f"sharp {name}", bank.attend(xi, beta=40.0)
        yield f"equal {name}", memory(world, rank, dtype, equal_weights=True).log_density(xi)
        yield f"sample {name}", bank.sample(N_DRAWS, rng=1)
    yield "one state", bank.attend(xi[0])
    yield "no states", bank.attend(xi[:0])
    yield "fresh", bank.sample(3)


def chains(world, rank):
    """Runs from all starts, a run in two parts, and chains among others."""
    bank = memory(world, rank)
    for sampler in SAMPLERS:
        draws = bank.run(sampler=sampler, **CHAINS)
        yield from ((f"{sampler} {name}", getattr(draws, name)) for name in ("samples", "energies", "basins"))
        few = bank.run(sampler=sampler, **CHAINS | {"n_chains": 3, "n_steps": 8}, first_chain=4)
        yield f"{sampler} some", few.samples
        yield f"{sampler} second part", bank.run(sampler=sampler, start=few, n_steps=16, thin=8).samples
    yield "basins near masked", bank.run(**START_CHAINS, start=bank_parts()[0][MASKED]).basins
    for start in STARTS:
        yield f"start {start}", bank.run(**START_CHAINS, start=start).samples


def law(world, rank):
    """States of chains that started in equilibrium, on a bank with multiplicities, and exact draws of it."""
    X, r = ingredients("weights")
    rows = cut(world, rank, 5)
    bank = ShardedMemory(torch.tensor(X[rows]), beta=LAW_BETA, log_r=np.log(r[rows]))
    start = Mixture.from_ingredients(X, r, LAW_BETA).draw(LAW_CHAINS, seed=2)
    for sampler, options in LAW.items():
        keep = [options["n_steps"]]
        draws = bank.run(sampler=sampler, n_chains=LAW_CHAINS, keep=keep, start=start, rng=3, **options)
        yield f"law {sampler}", draws.samples[:, 0]
    yield "law exact", bank.sample(LAW_CHAINS, rng=5)


def gradients(world, rank):
    """First and second derivatives with respect to the states."""
    bank = memory(world, rank)
    layer = HopfieldMemory(bank)
    xi = torch.tensor(bank_parts()[-1])

    def derivatives(function):
        x = xi.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        return torch.stack((first.detach(), second))

    def stepped(x):
        generator = torch.Generator().manual_seed(0)
        return stochastic_attention(x, bank, bank, n_steps=3, alpha=0.2, generator=generator)

    yield "gradient forward", derivatives(lambda x: layer(x, n_steps=2))
    yield "gradient energy", derivatives(layer.energy)
    yield "gradient log_density", derivatives(bank.log_density)
    yield "gradient attend", derivatives(bank.attend)
    yield "gradient steps", derivatives(stepped)
    yield "steps", stepped(xi)
    yield "layer", layer(xi.float())
    yield "layer sample", layer.sample(4, torch.Generator().manual_seed(2))
    yield "layer text", repr(layer)
    yield "layer save", line_of(lambda: layer.save("x.safetensors"))
    yield "layer learn", line_of(lambda: HopfieldMemory(bank, learn=True))


def refusals(world, rank):
    """The messages for bad input, most of it on one rank only."""
    X, _, values, xi = bank_parts()
    rows, last = cut(world, rank), rank == world - 1
    bank, shard = memory(world, rank), torch.tensor(X[rows])

    def made(x=shard, beta=BETA, **options):
        return lambda: ShardedMemory(x, beta=beta, **options)

    broken = torch.full((4, D), 1.0)
    broken[2, 1] = torch.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ShardedMemory(4 * shard, beta=BETA)
    yield "warned", " ".join(str(warning.message) for warning in caught) if rank == 0 else str(len(caught))
    yield "bad NaN", line_of(made(broken.double() if last else shard))
    yield "bad d", line_of(made(shard[:, :4] if last else shard))
    yield "bad dtype", line_of(made(shard.float() if last else shard))
    yield "bad beta", line_of(made(beta=2.0 if last else 3.0))
    yield "bad sign", line_of(made(beta=-1.0 if last else 3.0))
    yield "bad values", line_of(made(values=None if last else values[rows]))
    yield "bad log_r", line_of(made(log_r=np.zeros(99) if last else None))
    yield "bad empty", line_of(made(shard[:0]))
    yield "bad masked", line_of(made(log_r=torch.full((len(shard),), -torch.inf)))
    yield "bad large", line_of(made(shard * 1e160 if rank == 0 else shard))
    yield "bad shape", line_of(made(shard[0] if len(shard) else torch.zeros(3)))
    yield "bad seed", line_of(lambda: bank.sample(5, rng=int(last)))
    yield "bad n", line_of(lambda: bank.sample(6 if last else 5, rng=0))
    yield "bad xi", line_of(lambda: bank.attend(xi + 1e-9 * last))
    yield "bad rows", line_of(lambda: bank.attend(xi[: 6 if last else 7]))
    yield "bad width", line_of(lambda: bank.attend(xi[:, : 4 if last else 5]))
    yield "bad call", line_of(lambda: (bank.score if last else bank.attend)(xi))
    yield "bad grad", line_of(lambda: bank.attend(torch.tensor(xi, requires_grad=last)))
    yield "bad alpha", line_of(lambda: bank.run(alpha=0.5 if last else 0.1, **CHAINS))
    yield "bad schedule", line_of(lambda: bank.run(beta=np.linspace(1, 2 + last, 24), **CHAINS))
    yield "bad start", line_of(lambda: bank.run(**START_CHAINS, start=[0, 3, 1]))
    yield "bad sampler", line_of(lambda: bank.run(sampler="exact"))
    yield (
        "bad generator",
        line_of(
            lambda: stochastic_attention(
                torch.tensor(xi), bank, bank, n_steps=1, generator=torch.Generator().manual_seed(int(last))
            )
        ),
    )
    yield "bad mask", line_of(lambda: stochastic_attention(torch.tensor(xi), bank, bank, is_causal=True))
    yield "bad value", line_of(lambda: stochastic_attention(torch.tensor(xi), bank, torch.tensor(xi)))
    yield "bad key", line_of(lambda: stochastic_attention(torch.tensor(xi), torch.tensor(xi), bank))
    yield "still works", bank.attend(xi)


def losses(world, rank):
    """What the others see when the last rank does not answer, and when it is killed in the middle of a run."""
    slow = memory(world, rank, group=dist.new_group(timeout=timedelta(seconds=TIMEOUT)))
    killed = memory(world, rank)
    xi, last = bank_parts()[-1], rank == world - 1
    begin = time.monotonic()
    if last:
        time.sleep(2 * TIMEOUT)
    else:
        yield "slow", line_of(lambda: slow.attend(xi))
        yield "slow seconds", time.monotonic() - begin
    dist.barrier()

    def kill(step, states):
        if last and step == 16:
            os.kill(os.getpid(), 9)

    begin = time.monotonic()
    yield "killed", line_of(lambda: killed.run(**CHAINS, on_keep=kill))
    yield "killed seconds", time.monotonic() - begin
    yield "killed again", line_of(lambda: killed.attend(xi))


def work(folder, world, rank):
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / f"store-{world}"), world)
    if rank == 0:
        refused = {"not started": line_of(lambda: ShardedMemory(torch.eye(2), beta=1.0))}
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=30))
    parts = (losses,) if world == 3 else (functions, chains, gradients, refusals) + (law,) * (world == 2)
    results = {} if rank else refused
    for part in parts:
        for name, value in part(world, rank):
            results[name] = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    np.savez(folder / f"{world}-{rank}.npz", **results)
    if world != 3:
        dist.destroy_process_group()


def fork(folder, world, rank):
    """The process of a rank, which ends here."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        warnings.simplefilter("error")
        work(folder, world, rank)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    for size in map(int, sys.argv[2:]):
        for process in [fork(Path(sys.argv[1]), size, number) for number in range(size)]:
            os.waitpid(process, 0)
