"""HopfieldMemory: a bank, or a batch of banks, as a torch module with retrieval, samples, a density and files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from .._backend.arrays import ArrayLike
from .._backend.checks import check_count, check_indices
from .._backend.files import require_replaceable, write_atomically
from ..core.memory import width_error
from ..storage.ranks import Fact
from .association import Association, add_tensors, beta_tensor, check_banks, natural_beta, positive_beta, states_like
from .ranks import ShardedMemory, require_left_out
from .steps import HALF, require_floats, wide

KIND = "stochattn.HopfieldMemory"


class HopfieldMemory(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """K memories in d dimensions, with p_beta ∝ exp(−beta E) of the modern Hopfield energy, as in `stochattn.energy`.

    patterns: (K, d), one row per memory; (*B, K, d), a batch of banks; or a ShardedMemory (which has beta, log_r and
              values already)
    beta:     a number, "natural", which is computed here once (see `temperature.natural`), one number for each bank, or
              an nn.Parameter, which stays the same parameter
    log_r:    (*B, K) log multiplicities; None is zeros, −inf masks a memory out
    values:   (*B, K, v) what each memory stands for, which `forward` then returns
    learn:    whether patterns and values are parameters; otherwise they are buffers
    learn_beta: whether beta is a parameter. Learning must keep it positive: a smaller value raises an error on the CPU.

    A memory's share of the samples is proportional to r_k exp(beta ‖m_k‖²/2): without unit norms, the longest memories
    dominate. Half precision rounds patterns and values; beta, log_r, logits, energies and densities are float32.

    States xi are (..., d). For a batch of banks they are (..., n, d), whose leading dimensions broadcast with B as in
    torch.matmul: (n, d) are n states for every bank, and (d,) is one. mask: (..., K), broadcast to the weights, is True
    where a state sees a memory, or has numbers to add to its logits; a state that sees none has weights zero, reads
    zeros, has an infinite energy and a log density of −inf.

    A ShardedMemory stays on its devices and in its dtype, is not learned, and is not part of the state dict. All ranks
    must pass the same states. Their gradients are right on every rank if all ranks compute the same loss.

    >>> import torch
    >>> from stochattn.nn import HopfieldMemory
    >>> memory = HopfieldMemory(torch.eye(3), beta=20.0)
    >>> memory(torch.tensor([0.9, 0.1, 0.0])).round(decimals=4)
    tensor([1., 0., 0.])
    """

    def __init__(
        self,
        patterns: ArrayLike | ShardedMemory,
        *,
        beta: float | str | Tensor = "natural",
        log_r: ArrayLike | None = None,
        values: ArrayLike | None = None,
        learn: bool = False,
        learn_beta: bool = False,
    ) -> None:
        super().__init__()
        self.sharded = patterns if isinstance(patterns, ShardedMemory) else None
        is_natural = isinstance(beta, str) and beta == "natural"
        if isinstance(patterns, ShardedMemory):
            is_passed = {"beta": not is_natural, "log_r": log_r is not None, "values": values is not None}
            is_passed |= {"learn": learn, "learn_beta": learn_beta}
            require_left_out(is_passed, "it is not learned and has its own beta, log_r and values")
            self.learn = False
            add_tensors(self, False, patterns=None, values=None, log_r=None)
            self.register_buffer("beta", torch.tensor(patterns.beta, dtype=torch.float64), persistent=False)
            return
        rows, logs, read = check_banks(patterns, log_r, values)
        self.learn = bool(learn)
        add_tensors(self, self.learn, patterns=rows, values=read)
        beta = beta_tensor(natural_beta(rows, logs) if is_natural else beta, tuple(rows.shape[:-2]), rows, learn_beta)
        add_tensors(self, False, log_r=logs, beta=beta)

    def forward(
        self, xi: Tensor, n_steps: int | None = None, *, tolerance: float | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """xi after n_steps of xi ← T(xi) = softmax(beta X xi + log r) X (Eq. 4); (..., d) -> (..., d).

        With values, softmax(beta X xi + log r) V of that state, (..., v); n_steps = 0 is then one attention. Without
        n_steps there is one step, or with a tolerance as many as it takes: each state stops after the first step that
        is no longer than the tolerance, whatever the other states do, and n_steps is the most it takes.
        """
        if self.sharded is not None:
            require_left_out({"tolerance": tolerance is not None, "mask": mask is not None})
            sharded, steps = self.sharded, 1 if n_steps is None else n_steps

            def facts() -> dict[str, Fact]:
                require_floats("xi", xi)
                return {"n_steps": check_count("n_steps", steps, 0)}

            state, beta = sharded.agree_on_states("HopfieldMemory", xi, None, facts)
            for _ in range(steps):
                state = sharded.bank.attend(state, beta)
            values = sharded.bank.shard.values
            return (state if values is None else sharded.bank.attend(state, beta, values)).to(xi.dtype)
        banks, rows = self._seen(xi, mask)
        state = banks.iterate(rows, n_steps, tolerance, 1)
        return _match_shape(xi, state if self.values is None else banks.attend(state, self.values)).to(xi.dtype)

    def weights(
        self, xi: Tensor, n_steps: int | None = None, *, tolerance: float | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """softmax(beta X xi + log r), the weights of the memories for xi after n_steps; (..., d) -> (..., K).

        The average of the memories with these weights is T(xi), and that of the values is what `forward` reads. Without
        n_steps there is no step, or with a tolerance as many as it takes, as in `forward`.
        """
        self._require_unsharded("weights")
        banks, rows = self._seen(xi, mask)
        return _match_shape(xi, banks.weights(banks.iterate(rows, n_steps, tolerance, 0)))

    def energy(self, xi: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """E(xi) = ½‖xi‖² − lse_beta(X xi) + log Σ r_k/beta + M²/2 (Eq. 3), at least zero; (..., d) -> (...).

        With a mask, sums and M are over the memories that a state sees.
        """
        if self.sharded is not None:
            require_left_out({"mask": mask is not None})
            return self.sharded.energy(xi)
        banks, rows = self._seen(xi, mask)
        return _match_shape(xi, banks.energy(rows), -1)

    def log_density(self, xi: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """log p_beta(xi), the normalized density of the Gaussian mixture; (..., d) -> (...).

        With a mask, the density of the mixture of the memories that a state sees, such as those of one class.
        """
        if self.sharded is not None:
            require_left_out({"mask": mask is not None})
            return self.sharded.log_density(xi)
        banks, rows = self._seen(xi, mask)
        return _match_shape(xi, banks.log_density(rows), -1)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n exact, independent draws, m_k + ε/√beta with k drawn from r_k exp(beta ‖m_k‖²/2): (*B, n, d).

        With a ShardedMemory, the draws are those of its own `sample`, with a seed from the generator.
        """
        if self.sharded is not None:
            return self.sharded.sample(n, generator)
        return self.banks().draw(n, generator).to(self.patterns.dtype)

    def rsample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The draws of `sample` with gradients for patterns and beta, where these are learned: (*B, n, d).

        The gradient of an average of any smooth function of the draws is unbiased: it includes how the weights of the
        mixture change, by moving draws along the lines from the mean of the mixture to the memories. Where memories are
        many standard deviations 1/√beta apart, few draws lie between them, and this part of the gradient is noisy.
        """
        self._require_unsharded("rsample")
        return self.banks().draw(n, generator).to(self.patterns.dtype)

    def add(
        self, patterns: ArrayLike, *, log_r: ArrayLike | None = None, values: ArrayLike | None = None
    ) -> HopfieldMemory:
        """A new memory with further rows (*B, K_new, d) at the end; `values` is needed if this memory has them.

        beta keeps its value. Parameters of the new memory are copies: give them to the optimizer again.
        """
        self._require_unsharded("add")
        if (values is None) != (self.values is None):
            has = "none" if self.values is None else "them"
            raise ValueError(f"values must be given exactly when the memory has them; this one has {has}.")
        rows, logs, read = check_banks(patterns, log_r, values)
        old, got = tuple(self.patterns.shape), tuple(rows.shape)
        if got[:-2] != old[:-2] or got[-1] != old[-1]:
            batch = "".join(f"{size}, " for size in old[:-2])
            raise ValueError(f"patterns must have shape ({batch}K_new, {old[-1]}), as the memory has; got {got}.")
        pairs = ((self.patterns, rows, -2), (self.log_r, logs, -1), (self.values, read, -2))
        return self._with(*(None if y is None else torch.cat((x, y.to(x)), dim) for x, y, dim in pairs))

    def remove(self, indices: ArrayLike) -> HopfieldMemory:
        """A new memory without the rows at these indices, in every bank; the other rows keep their bits.

        beta keeps its value. Parameters of the new memory are copies: give them to the optimizer again.
        """
        self._require_unsharded("remove")
        K = self.patterns.shape[-2]
        out = set(check_indices(indices, K, "indices", "memories").tolist())
        left = torch.tensor([k for k in range(K) if k not in out], device=self.patterns.device)
        if not len(left):
            raise ValueError(f"indices must leave at least one memory; got all K={K}.")
        kept = ((self.patterns, -2), (self.log_r, -1), (self.values, -2))
        return self._with(*(None if x is None else x.index_select(dim, left) for x, dim in kept))

    def banks(self) -> Association:
        """The banks as functions of tensors, with gradients to the parameters of this memory."""
        self._require_unsharded("banks")
        patterns = wide(self.patterns)
        return Association(patterns, positive_beta(self.beta, patterns), self.log_r)

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write the bank to a safetensors file, completely or not at all.

        A bank that was saved there earlier is replaced, and any other file only with `replace=True`.
        """
        if self.sharded is not None:
            raise ValueError("a ShardedMemory cannot be saved as one file. Save the rows of each rank instead.")
        check = partial(require_replaceable, f"path {os.fspath(path)!r}", Path(path), _is_saved_memory, replace)
        check()
        tensors = {name: x.detach().contiguous() for name, x in self.state_dict().items()}
        settings = {"kind": KIND, "learn": str(self.learn)}
        if isinstance(self.beta, nn.Parameter):
            settings["learn_beta"] = "True"
        write_atomically(Path(path), _sort_settings(_safetensors().torch.save(tensors, settings)), check)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HopfieldMemory:
        """The memory that `save` wrote, on the CPU; ValueError for any other file."""
        library = _safetensors()
        if not Path(path).is_file():
            raise FileNotFoundError(f"path must name a safetensors file; there is no file {str(path)!r}.")
        try:
            with library.safe_open(Path(path), "pt") as file:
                metadata = file.metadata() or {}
                x = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dictionary
        except library.SafetensorError as error:
            raise ValueError(f"path must name a safetensors file; {str(path)!r} is not one ({error}).") from None
        required = {"patterns", "beta", "log_r"}
        is_saved = metadata.get("kind") == KIND and required <= x.keys() <= required | {"values"}
        is_saved = is_saved and x["patterns"].is_floating_point()
        if not is_saved or x["beta"].shape not in ((), (1,), x["patterns"].shape[:-2]):
            raise ValueError(f"path must name a file that HopfieldMemory.save wrote; {str(path)!r} is not one.")
        learned = {name: metadata.get(name) == "True" for name in ("learn", "learn_beta")}
        memory = cls(x["patterns"], beta=x["beta"], log_r=x["log_r"], values=x.get("values"), **learned)
        memory.to(x["patterns"].dtype)
        return memory

    def extra_repr(self) -> str:
        """Sizes, beta and settings, for `print`."""
        if self.sharded is not None:
            return repr(self.sharded)
        *batch, K, d = self.patterns.shape
        banks = f"{'x'.join(map(str, batch))} banks of " if batch else ""
        values = "" if self.values is None else f", values in {self.values.shape[-1]} dimensions"
        low, high = ("?", "?") if self.beta.is_meta else (f"{float(x):.6g}" for x in self.beta.detach().aminmax())
        settings = "".join(f", {name}=True" for name, is_learned in self._learned().items() if is_learned)
        return f"{banks}K={K} memories, d={d}, beta={low if low == high else f'{low} to {high}'}{values}{settings}"

    def _seen(self, xi: Tensor, mask: Tensor | None) -> tuple[Association, Tensor]:
        """The banks as states xi (..., d) see them, and the states as (..., n, d)."""
        K, d = self.patterns.shape[-2:]
        require_floats("xi", xi, f"(..., d={d})")
        if xi.ndim == 0 or xi.shape[-1] != d:
            raise width_error(tuple(xi.shape), K, d)
        rows = states_like(xi, self.patterns)
        rows = rows.unsqueeze(0) if xi.ndim == 1 else rows
        batch, states = tuple(self.patterns.shape[:-2]), tuple(rows.shape)
        if not all(1 in (a, b) or a == b for a, b in zip(states[-3::-1], batch[::-1], strict=False)):
            rule = f"xi must be states (..., n, d) that broadcast with the banks {batch}"
            raise ValueError(f"{rule}; got shape {tuple(xi.shape)}. Pass (n, d) for n states in every bank.")
        return self.banks().with_mask(mask, rows), rows

    def _with(self, patterns: Tensor, log_r: Tensor, values: Tensor | None) -> HopfieldMemory:
        """A memory of these rows with the beta and the settings of this one."""
        x, r, v = (None if tensor is None else tensor.detach() for tensor in (patterns, log_r, values))
        memory = self.__class__(x, beta=self.beta.detach().clone(), log_r=r, values=v, **self._learned())
        memory.to(self.patterns.dtype)
        return memory

    def _learned(self) -> dict[str, bool]:
        return {"learn": self.learn, "learn_beta": isinstance(self.beta, nn.Parameter)}

    def _require_unsharded(self, call: str) -> None:
        """ValueError if the rows are on several ranks, for a call that needs all of them."""
        if self.sharded is not None:
            raise ValueError(f"{call} needs all memories in one process; a ShardedMemory has them on several ranks.")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HopfieldMemory:
        exact = {} if self.sharded is not None else {"beta": self.beta.detach(), "log_r": self.log_r}
        super()._apply(fn, recurse)
        for name, x in exact.items():
            converted = getattr(self, name)
            if converted.dtype in HALF:  # at beta = 2000, a relative error of 1/1000 is an error of 2 in a logit
                converted.data = x.to(converted.device, torch.float32)
        return self


def _match_shape(xi: Tensor, result: Tensor, dim: int = -2) -> Tensor:
    """The result for states (..., n, d), without the dimension of n for a single state (d,)."""
    return result.squeeze(dim) if xi.ndim == 1 else result


def _sort_settings(data: bytes) -> bytes:
    """The same file with its settings in alphabetical order, so that equal memories have equal files.

    The library writes them in an order that varies from call to call. A file begins with the length of its header in
    eight bytes and the header in JSON, padded with spaces.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    return data[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(end - 8) + data[end:]


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
