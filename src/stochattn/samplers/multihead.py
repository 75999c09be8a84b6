"""Multi-head stochastic attention: project a bank to subspaces, sample each head on its own, join the heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend.arrays import Array, ArrayLike, as_floats, concatenate, freeze, like, to_numpy
from .._backend.checks import check_beta, check_choice, check_count
from .._backend.random import Purpose, SeedLike, generator, seed_of
from ..core.memory import MemoryBank, check_states, require_bank
from ..kernels.philox import streams
from . import draw, run
from .draws import Draws
from .plan import Beta, Start, draw_start

__all__ = ["HeadDraws", "Heads", "pca", "projected"]


@dataclass(frozen=True, eq=False, repr=False)
class HeadDraws:
    """What `Heads.run` returns: the joined `samples` (n_chains, n_kept, d), and the draws of each head.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> heads = sa.multihead.projected(bank, [[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> heads.run(20.0, n_chains=3, n_steps=20, warmup=0, thin=10, rng=0)
    HeadDraws(2 heads, 3 chains x 2 kept, d=2)
    """

    samples: Array
    per_head: tuple[Draws, ...]

    def __repr__(self) -> str:
        n_chains, n_kept, d = self.samples.shape
        return f"HeadDraws({len(self.per_head)} heads, {n_chains} chains x {n_kept} kept, d={d})"


@dataclass(frozen=True, eq=False, repr=False)
class Heads:
    """H banks, each in its own subspace, with the maps to and from them (Eq. 31 and the text below it).

    bank:    the memories in the full space
    banks:   the memories in the space of each head, (K, d_h)
    inputs:  W_h (d_h, d): the state of head h is W_h (xi − origin)
    output:  W_O (d, Σ d_h): the heads' states z are joined to offset + W_O [z_1; …; z_H]

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> heads = sa.multihead.projected(bank, [[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> heads
    Heads(2 heads over K=2 memories, d=2, widths 1, 1)
    >>> heads.sample(5, beta=20.0, rng=0).shape
    (5, 2)
    """

    bank: MemoryBank
    banks: tuple[MemoryBank, ...]
    inputs: tuple[Array, ...]
    output: Array
    origin: Array
    offset: Array

    def split(self, xi: ArrayLike) -> tuple[Array, ...]:
        """A state in the space of each head: (..., d) -> H times (..., d_h)."""
        xi = check_states(xi, self.bank) - self.origin
        return tuple(xi @ W.T for W in self.inputs)

    def join(self, parts: Sequence[Array]) -> Array:
        """The heads' states joined: H times (..., d_h) -> (..., d)."""
        if len(parts) != len(self.banks):
            raise ValueError(f"parts must hold one array for each of the {len(self.banks)} heads; got {len(parts)}.")
        return self.offset + concatenate(parts, -1) @ self.output.T

    def sample(self, n: int, beta: float, rng: SeedLike = None) -> Array:
        """n exact, independent draws: each head from its own mixture, independently of the others; (n, d)."""
        n, beta, seed = check_count("n", n), check_beta(beta), seed_of(rng)
        return self.join([draw(bank, beta, n, _child(seed, h)) for h, bank in enumerate(self.banks)])

    def run(
        self, beta: Beta, *, n_chains: int = 30, start: Start = "memories", rng: SeedLike = None, **options: Any
    ) -> HeadDraws:
        """Independent chains on each head, started together from one state of the full space; options as in `run`."""
        seed = seed_of(rng)
        starts: Sequence[Start] = [start] * len(self.banks)
        if not (isinstance(start, str) and start in ("sphere", "equilibrium")):
            first, n_chains = options.get("first_chain", 0), check_count("n_chains", n_chains)
            with streams(seed, range(first, first + n_chains), self.bank.patterns) as noise:
                first_beta = check_beta(float(np.ravel(to_numpy(beta))[0]))
                together = draw_start(start, self.bank, first_beta, options.get("sigma_init", 0.01), noise)
                starts = self.split(together[noise.active_rows])
        per_head = []
        for h, (bank, begin) in enumerate(zip(self.banks, starts, strict=True)):
            draws = run(bank, beta, n_chains=n_chains, start=begin, rng=_child(seed, h), **options)
            if not draws.settings.complete:  # heads of different lengths cannot be joined
                raise KeyboardInterrupt
            per_head.append(draws)
        return HeadDraws(self.join([draws.samples for draws in per_head]), tuple(per_head))

    def __repr__(self) -> str:
        widths = ", ".join(str(bank.d) for bank in self.banks)
        return f"Heads({len(self.banks)} heads over K={self.bank.K} memories, d={self.bank.d}, widths {widths})"


def projected(bank: MemoryBank, projections: Sequence[ArrayLike], output: ArrayLike | None = None) -> Heads:
    """Heads from projections W_h (d_h, d) of your own, such as the key matrices of an attention layer.

    output: W_O (d, Σ d_h); by default the pseudo-inverse of the stacked projections, which undoes them where it can.

    >>> import stochattn as sa
    >>> bank = sa.MemoryBank([[1.0, 0.0], [0.0, 1.0]])
    >>> sa.multihead.projected(bank, [[[1.0, 0.0]], [[0.0, 1.0]]]).split([0.3, 0.4])
    (array([0.3]), array([0.4]))
    """
    inputs = tuple(freeze(like(as_floats(W, "projections"), require_bank(bank).patterns)) for W in projections)
    if not inputs:
        raise ValueError("projections must hold at least one matrix; got none.")
    for W in inputs:
        if W.ndim != 2 or W.shape[1] != bank.d:
            raise ValueError(f"each of projections must be (d_h, d={bank.d}); got shape {tuple(W.shape)}.")
    stacked = np.concatenate([to_numpy(W) for W in inputs])
    out = np.linalg.pinv(stacked) if output is None else to_numpy(as_floats(output, "output"))
    if out.shape != stacked.T.shape:
        raise ValueError(f"output must be (d={bank.d}, {len(stacked)}); got shape {out.shape}.")
    zero = like(np.zeros(bank.d), bank.patterns)
    banks = tuple(MemoryBank(bank.patterns @ W.T, bank.log_r) for W in inputs)
    return Heads(bank, banks, inputs, like(out, bank.patterns), zero, zero)


def pca(bank: MemoryBank, n_heads: int, n_components: int | None = None, norms: str = "kept") -> Heads:
    """Heads over consecutive slices of the principal components of the memories (the paper's multi-head appendix).

    norms="kept" projects the centered memories, so that the heads of a memory join to that memory.
    norms="paper" is the published recipe: uncentered memories are projected and scaled to unit norm in each head. Every
    head then has the same weight, and the heads of a memory do not join to it; the mean is added at the output.
    n_components: by default all with variance ("kept"), or min(K, d) ("paper").

    >>> import numpy as np, stochattn as sa
    >>> bank = sa.MemoryBank(np.random.default_rng(0).standard_normal((10, 6)))
    >>> heads = sa.multihead.pca(bank, n_heads=2)
    >>> np.allclose(heads.join(heads.split(bank.patterns)), bank.patterns)
    True
    """
    check_choice("norms", norms, ("kept", "paper"))
    patterns = to_numpy(require_bank(bank).active.patterns)
    mean = patterns.mean(0)
    _, singular, components = np.linalg.svd(patterns - mean, full_matrices=False)
    largest = np.take_along_axis(components, np.abs(components).argmax(1)[:, None], 1)
    components = np.where(largest < 0, -components, components)  # the sign of a component is LAPACK's choice
    if n_components is None:
        tiny = singular[0] * max(patterns.shape) * np.finfo(patterns.dtype).eps
        n_components = len(components) if norms == "paper" else int((singular > tiny).sum())
    if check_count("n_components", n_components) > len(components):
        raise ValueError(f"n_components must be at most min(K, d) = {len(components)}; got {n_components}.")
    if check_count("n_heads", n_heads) > n_components:
        raise ValueError(f"n_heads must be at most the number of components, {n_components}; got {n_heads}.")
    slices = [like(W, bank.patterns) for W in np.array_split(components[:n_components], n_heads)]
    offset = like(mean, bank.patterns)
    origin = offset if norms == "kept" else like(np.zeros(bank.d), bank.patterns)
    banks = tuple(MemoryBank((bank.patterns - origin) @ W.T, bank.log_r) for W in slices)
    if norms == "paper":
        banks = tuple(head.normalized() for head in banks)
    output = like(np.ascontiguousarray(components[:n_components].T), bank.patterns)
    return Heads(bank, banks, tuple(slices), output, origin, offset)


def _child(seed: int, head: int) -> int:
    return int(generator(seed, Purpose.HEAD, head).integers(2**63))
