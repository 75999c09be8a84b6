"""HopfieldMemory: a bank as a torch module with retrieval, samples and a density."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from .._backend.arrays import ArrayLike, full_precision
from .._backend.checks import count, inverse_temperature
from .._backend.files import write_whole
from .._backend.places import require_replaceable
from ..core.memory import MemoryBank, wrong_width
from ..core.temperature import natural
from .functional import HALF, require_generator, wide
from .sharded_layers import retrieved
from .sharded_memory import ShardedMemory

KIND = "stochattn.HopfieldMemory"


class HopfieldMemory(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """K memories in d dimensions, with p_beta ∝ exp(−beta E) of the modern Hopfield energy, as in `stochattn.energy`.

    patterns: (K, d), one row per memory, or a ShardedMemory (which has beta, log_r and values already)
    beta:     a number, or "natural", which is computed here once (see `temperature.natural`)
    log_r:    (K,) log multiplicities; None is zeros, −inf masks a memory out
    values:   (K, v) what each memory stands for, which `forward` then returns
    learn:    whether patterns and values are parameters; otherwise they are buffers

    A memory's share of the samples is proportional to r_k exp(beta ‖m_k‖²/2): without unit norms, the longest memories
    dominate. Half precision rounds patterns and values; beta, log_r, logits, energies and densities are float32.

    A ShardedMemory stays on its devices and in its dtype, is not learned, and is not part of the state dict. All ranks
    must pass the same states. Their gradients are right on every rank if all ranks compute the same loss.
    """

    def __init__(
        self,
        patterns: ArrayLike | ShardedMemory,
        *,
        beta: float | str = "natural",
        log_r: ArrayLike | None = None,
        values: ArrayLike | None = None,
        learn: bool = False,
    ) -> None:
        super().__init__()
        self.sharded = patterns if isinstance(patterns, ShardedMemory) else None
        if isinstance(patterns, ShardedMemory):
            given = {
                "beta": beta != "natural",
                "log_r": log_r is not None,
                "values": values is not None,
                "learn": learn,
            }
            for name in [name for name, is_given in given.items() if is_given]:
                rule = f"{name} must not be given with a ShardedMemory"
                raise ValueError(f"{rule}, which is not learned and has beta, log_r and values of its own.")
            self.learn = False
            for name in ("patterns", "values", "log_r"):
                self.register_buffer(name, None)
            self.register_buffer("beta", torch.tensor(patterns.beta, dtype=torch.float64), persistent=False)
            return
        bank = MemoryBank(patterns, log_r, values)
        chosen = natural(bank) if isinstance(beta, str) and beta == "natural" else inverse_temperature(beta)
        self.learn = bool(learn)
        for name in ("patterns", "values", "log_r"):
            x = getattr(bank, name)
            x = x if x is None or isinstance(x, Tensor) else torch.tensor(x[:])
            if learn and name != "log_r":
                self.register_parameter(name, None if x is None else nn.Parameter(x))
            else:
                self.register_buffer(name, x)
        self.register_buffer("beta", torch.tensor(chosen, dtype=self.patterns.dtype, device=self.patterns.device))

    def forward(self, xi: Tensor, n_steps: int = 1) -> Tensor:
        """xi after n_steps of xi ← T(xi) = softmax(beta X xi + log r) X (Eq. 4); (..., d) -> (..., d).

        With values, softmax(beta X xi + log r) V of that state, (..., v); n_steps = 0 is then one attention.
        """
        if self.sharded is not None:
            return retrieved(self.sharded, xi, n_steps)
        state = self._states(xi)
        for _ in range(count("n_steps", n_steps, 0)):
            state = self._attend(state, self.patterns)
        return (state if self.values is None else self._attend(state, self.values)).to(xi.dtype)

    def energy(self, xi: Tensor) -> Tensor:
        """E(xi) = ½‖xi‖² − lse_beta(X xi) + log Σ r_k/beta + M²/2 (Eq. 3), at least zero; (..., d) -> (...)."""
        if self.sharded is not None:
            return self.sharded.energy(xi)
        xi = self._states(xi)
        kept = self._norms_squared(xi.dtype).masked_fill(self.log_r == -math.inf, 0.0)
        return self._table_energy(xi) + self.log_r.to(xi.dtype).logsumexp(0) / self.beta + kept.amax() / 2

    def log_density(self, xi: Tensor) -> Tensor:
        """log p_beta(xi), the normalised density of the Gaussian mixture; (..., d) -> (...)."""
        if self.sharded is not None:
            return self.sharded.log_density(xi)
        xi = self._states(xi)
        log_z = (self.log_r + self.beta / 2 * self._norms_squared(xi.dtype)).logsumexp(0)
        return -self.beta * self._table_energy(xi) - log_z - xi.shape[-1] / 2 * torch.log(2 * math.pi / self.beta)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n exact, independent draws, m_k + ε/√beta with k drawn from r_k exp(beta ‖m_k‖²/2): (n, d).

        A ShardedMemory draws those of its own `sample`, with a seed from the generator.
        """
        if self.sharded is not None:
            return self.sharded.sample(n, generator)
        patterns, options = wide(self.patterns), {"generator": require_generator(generator), "device": self.beta.device}
        # In float64, because rounding in sums of many float32 weights would favour the first memories.
        cumulative = (self.log_r + self.beta / 2 * self._norms_squared(torch.float64)).softmax(0).cumsum(0)
        uniforms = torch.rand(count("n", n), dtype=torch.float64, **options)
        k = torch.searchsorted(cumulative, uniforms * cumulative[-1], right=True)
        eps = torch.randn((n, patterns.shape[1]), dtype=patterns.dtype, **options)
        return (patterns[k] + eps / self.beta.sqrt()).to(self.patterns.dtype)

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write the bank to a safetensors file, whole or not at all.

        A bank that was saved there earlier is replaced, and any other file only with `replace=True`.
        """
        if self.sharded is not None:
            raise ValueError("a ShardedMemory cannot be saved as one file. Save the rows of each rank instead.")

        def check() -> None:
            require_replaceable(f"path {os.fspath(path)!r}", Path(path), _is_saved_memory, replace)

        check()
        tensors = {name: x.detach().contiguous() for name, x in self.state_dict().items()}
        write_whole(Path(path), _safetensors().torch.save(tensors, {"kind": KIND, "learn": str(self.learn)}), check)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HopfieldMemory:
        """The memory that `save` wrote, on the CPU."""
        library = _safetensors()
        if not Path(path).is_file():
            raise FileNotFoundError(f"path must name a safetensors file; there is no file {str(path)!r}.")
        try:
            with library.safe_open(Path(path), "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dictionary
        except library.SafetensorError as error:
            raise ValueError(f"path must name a safetensors file; {str(path)!r} is not one ({error}).") from None
        needed = {"patterns", "beta", "log_r"}
        ours = metadata.get("kind") == KIND and needed <= tensors.keys() <= needed | {"values"}
        if not (ours and tensors["patterns"].is_floating_point() and tensors["beta"].numel() == 1):
            raise ValueError(f"path must name a file that HopfieldMemory.save wrote; {str(path)!r} is not one.")
        patterns, beta = tensors.pop("patterns"), float(tensors.pop("beta"))
        made = cls(patterns, beta=beta, learn=metadata.get("learn") == "True", **tensors)
        made.to(patterns.dtype)
        return made

    def extra_repr(self) -> str:
        """Sizes, beta and settings, for `print`."""
        if self.sharded is not None:
            return repr(self.sharded)
        K, d = self.patterns.shape
        values = "" if self.values is None else f", values in {self.values.shape[1]} dimensions"
        beta = "?" if self.beta.is_meta else f"{float(self.beta):.6g}"
        return f"K={K} memories, d={d}, beta={beta}{values}{', learn=True' if self.learn else ''}"

    def _states(self, xi: Tensor) -> Tensor:
        """xi (..., d) in the wider of its own dtype and that of the patterns, and at least float32."""
        K, d = self.patterns.shape
        if not isinstance(xi, Tensor) or not xi.is_floating_point():
            got = xi.dtype if isinstance(xi, Tensor) else type(xi).__name__
            raise TypeError(f"xi must be a tensor of real numbers, (..., d={d}); got {got}.")
        if xi.ndim == 0 or xi.shape[-1] != d:
            raise wrong_width(tuple(xi.shape), K, d)
        return xi.to(torch.promote_types(wide(xi).dtype, wide(self.patterns).dtype))

    def _logits(self, xi: Tensor) -> Tensor:
        return self.beta * (xi @ self.patterns.to(xi.dtype).T) + self.log_r

    def _attend(self, xi: Tensor, values: Tensor) -> Tensor:
        with full_precision(xi):
            return self._logits(xi).softmax(-1) @ values.to(xi.dtype)

    def _table_energy(self, xi: Tensor) -> Tensor:
        with full_precision(xi):
            return xi.square().sum(-1) / 2 - self._logits(xi).logsumexp(-1) / self.beta

    def _norms_squared(self, dtype: torch.dtype) -> Tensor:
        return self.patterns.to(dtype).square().sum(-1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HopfieldMemory:
        exact = {} if self.sharded is not None else {"beta": self.beta, "log_r": self.log_r}
        super()._apply(fn, recurse)
        for name, x in exact.items():
            made = getattr(self, name)
            if made.dtype in HALF:  # at beta = 2000, a relative error of 1/1000 is an error of 2 in a logit
                setattr(self, name, x.to(made.device, torch.float32))
        return self


def _is_saved_memory(path: Path) -> bool:
    library = _safetensors()
    try:
        with library.safe_open(path, "pt") as file:
            return (file.metadata() or {}).get("kind") == KIND
    except (library.SafetensorError, OSError):
        return False


def _safetensors() -> ModuleType:
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise ImportError("saving and loading need safetensors: pip install 'stochattn[torch]'") from None
    return safetensors
