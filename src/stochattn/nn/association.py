"""Banks of memories as functions of tensors: attention, energy, density and exact draws; and checks of arguments."""

from __future__ import annotations

import math
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from .._backend import arrays
from .._backend.arrays import ArrayLike
from .._backend.checks import check_beta, check_count, check_positive
from ..core.memory import MemoryBank
from ..core.temperature import natural
from .steps import additive, require_broadcast, require_generator, require_mask, wide

MAX_STEPS = 1000  # steps until a tolerance must be met, unless their number is given


@dataclass(frozen=True)
class Association:
    """Banks with p_beta ∝ exp(−beta E), of any batch shape B, whose gradients reach every tensor in them.

    patterns: (*B, K, d), at least float32; log_r: (*B, K) or None for zeros; beta: () or broadcast to B
    log_mask: (..., n, K) numbers that are added to the logits of n states, −inf where a memory is hidden, or None

    States are (..., n, d), and their leading dimensions broadcast with B as in torch.matmul. A state for which every
    memory is hidden has weights zero, an infinite energy and no density.
    """

    patterns: Tensor
    beta: Tensor
    log_r: Tensor | None = None
    log_mask: Tensor | None = None

    def with_mask(self, mask: Tensor | None, xi: Tensor) -> Association:
        """These banks as states (..., n, d) see them through a mask (..., n, K): True is visible, numbers are added."""
        if mask is None:
            return self
        require_mask("mask", mask, "True for a visible memory")
        leading = torch.broadcast_shapes(xi.shape[:-2], self.patterns.shape[:-2])
        require_broadcast("mask", mask, (*leading, xi.shape[-2], self.patterns.shape[-2]))
        return replace(self, log_mask=additive(mask, xi))

    def weights(self, xi: Tensor) -> Tensor:
        """softmax(beta X xi + log r), the weights of the memories; (..., n, d) -> (..., n, K)."""
        with _full_precision(xi):
            logits, blind = self._visible(self._logits(xi))
            return logits.softmax(-1) if blind is None else logits.softmax(-1).masked_fill(blind, 0.0)

    def attend(self, xi: Tensor, values: Tensor | None = None, dropout_p: float = 0.0) -> Tensor:
        """T(xi), the average of the memories (Eq. 4), or of values (*B, K, v) instead; (..., n, d) -> (..., n, v).

        dropout_p: the probability that a weight is set to zero (the others are then scaled up)
        """
        with _full_precision(xi):
            weights = dropout(self.weights(xi), dropout_p) if dropout_p else self.weights(xi)
            return weights @ (self.patterns if values is None else values).to(xi.dtype)

    def iterate(self, xi: Tensor, n_steps: int | None, tolerance: float | None, otherwise: int) -> Tensor:
        """xi after n_steps of xi ← T(xi), or `otherwise` steps if neither n_steps nor a tolerance is given.

        With a tolerance each state stops on its own, after the first step that is no longer than it. Without n_steps,
        a state that still moves after 1,000 steps gives a warning.
        """
        if n_steps is not None:
            check_count("n_steps", n_steps, 0)
        if tolerance is None:
            for _ in range(otherwise if n_steps is None else n_steps):
                xi = self.attend(xi)
            return xi
        check_positive("tolerance", tolerance, "It is the length of a step after which a state stops.")
        moving = torch.ones((), dtype=torch.bool, device=xi.device)
        for _ in range(MAX_STEPS if n_steps is None else n_steps):
            new = self.attend(xi)
            step = (new - xi).detach().square().sum(-1, keepdim=True).sqrt()
            xi = torch.where(moving, new, xi)
            moving = moving & (step > tolerance)
            if not moving.any():
                return xi
        if n_steps is None:
            rule = f"states still move by more than tolerance={tolerance:g} after {MAX_STEPS} steps"
            warnings.warn(f"{rule}; raise the tolerance, or pass n_steps.", RuntimeWarning, stacklevel=3)
        return xi

    def energy(self, xi: Tensor) -> Tensor:
        """E(xi) = ½‖xi‖² − lse_beta(X xi) + log Σ r_k/beta + M²/2 (Eq. 3), at least zero; (..., n, d) -> (..., n)."""
        log_r, blind = self._visible(self._log_r(xi))
        largest = self._norms_squared(xi.dtype).unsqueeze(-2).masked_fill(log_r == -math.inf, 0.0).amax(-1)
        energy = self._table_energy(xi) + log_r.logsumexp(-1) / self.beta.unsqueeze(-1) + largest / 2
        return energy if blind is None else energy.masked_fill(blind.squeeze(-1), math.inf)

    def log_density(self, xi: Tensor) -> Tensor:
        """log p_beta(xi), the normalized density of the Gaussian mixture; (..., n, d) -> (..., n)."""
        beta = self.beta.unsqueeze(-1)
        log_r, blind = self._visible(self._log_r(xi))
        log_z = (log_r + beta[..., None] / 2 * self._norms_squared(xi.dtype).unsqueeze(-2)).logsumexp(-1)
        density = -beta * self._table_energy(xi) - log_z - xi.shape[-1] / 2 * torch.log(2 * math.pi / beta)
        return density if blind is None else density.masked_fill(blind.squeeze(-1), -math.inf)

    def draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        """n exact draws of each bank, m_k + ε/√beta with k drawn from r_k exp(beta ‖m_k‖²/2): (*B, n, d).

        Gradients reach patterns, beta and log_r, through the means, the noise and the weights of the mixture. The
        gradient of an average of any smooth function of the draws is unbiased (see `_transport`).
        """
        if self.log_mask is not None:
            raise ValueError("draws do not see a mask, which is that of states: set log_r to -inf instead.")
        n, shape = check_count("n", n), self.patterns.shape
        options = {"generator": require_generator(generator), "device": self.patterns.device}
        # In float64, because rounding in sums of many float32 weights would favor the first memories.
        log_shares = self.beta.unsqueeze(-1) / 2 * self._norms_squared(torch.float64)
        shares = (log_shares if self.log_r is None else self.log_r + log_shares).softmax(-1)
        cumulative = shares.detach().cumsum(-1)
        uniforms = torch.rand((*shape[:-2], n), dtype=torch.float64, **options)
        uniforms *= cumulative[..., -1:]
        k = torch.searchsorted(cumulative, uniforms, right=True)
        eps = torch.randn((*shape[:-2], n, shape[-1]), dtype=self.patterns.dtype, **options)
        chosen = self.patterns[k] if len(shape) == 2 else self.patterns.take_along_dim(k.unsqueeze(-1), -2)
        draws = chosen + eps / self.beta[..., None, None].sqrt()
        return draws + self._transport(draws.detach().double(), shares) if shares.requires_grad else draws

    def _transport(self, x: Tensor, shares: Tensor) -> Tensor:
        """Zeros (*B, n, d) whose gradient moves draws x as a change of the weights (*B, K) of the mixture requires.

        Let c be the mean of the mixture. N(x; m_k) − N(x; c) = −∇·F_k with F_k = (m_k − c) ∫₀¹ N(x; c + t (m_k − c)) dt
        because N(x; c + t δ) changes with t by −δ·∇N. So the field Σ_k dw_k F_k/p changes p by Σ_k dw_k N(x; m_k), as
        the change dw of the weights does (Σ_k dw_k = 0). The integral is a difference of error functions.
        """
        with torch.no_grad():
            patterns, beta = self.patterns.double(), self.beta.double()[..., None, None]
            center = shares.unsqueeze(-2) @ patterns
            ways, y = patterns - center, x - center
            lengths = ways.square().sum(-1).sqrt().unsqueeze(-2)
            safe = torch.where(lengths > 0, lengths, 1.0)  # a memory at the center moves nothing
            along = y @ ways.mT / safe
            across = (y.square().sum(-1, keepdim=True) - along.square()).clamp_min(0.0)
            components = shares.log().unsqueeze(-2) - beta / 2 * (across + (along - lengths).square())
            between = _log_normal_mass(beta.sqrt() * (along - safe), beta.sqrt() * along)
            line = -beta / 2 * across + between + torch.log(2 * math.pi / beta) / 2 - safe.log()
            fields = (line - components.logsumexp(-1, keepdim=True)).exp()
        moved = (shares.unsqueeze(-2) * fields) @ ways
        return (moved - moved.detach()).to(self.patterns.dtype)

    def _log_r(self, xi: Tensor) -> Tensor:
        """The logarithms of the multiplicities that each state sees, (..., n or 1, K)."""
        K = self.patterns.shape[-2]
        log_r = xi.new_zeros((1, K)) if self.log_r is None else self.log_r.unsqueeze(-2).to(xi.dtype)
        return log_r if self.log_mask is None else log_r + self.log_mask

    def _logits(self, xi: Tensor) -> Tensor:
        logits = self.beta[..., None, None] * (xi @ self.patterns.to(xi.dtype).mT)
        logits = logits if self.log_r is None else logits + self.log_r.unsqueeze(-2)
        return logits if self.log_mask is None else logits + self.log_mask

    def _table_energy(self, xi: Tensor) -> Tensor:
        with _full_precision(xi):
            logits, _ = self._visible(self._logits(xi))
            return xi.square().sum(-1) / 2 - logits.logsumexp(-1) / self.beta.unsqueeze(-1)

    def _visible(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """The logits, zero for states that see nothing, whose gradients would be NaN; and these states (..., n, 1)."""
        if self.log_mask is None:
            return logits, None
        blind = (logits == -math.inf).all(-1, keepdim=True)
        return logits.masked_fill(blind, 0.0), blind

    def _norms_squared(self, dtype: torch.dtype) -> Tensor:
        return self.patterns.to(dtype).square().sum(-1)


def _full_precision(xi: Tensor) -> AbstractContextManager[object]:
    """A context without autocast and TF32; a compiled function cannot change TF32, so that stays as the user set it."""
    if torch.compiler.is_compiling():
        return torch.autocast(xi.device.type, enabled=False)  # type: ignore[no-any-return]
    return arrays.full_precision(xi)


def states_like(xi: Tensor, patterns: Tensor) -> Tensor:
    """xi in the wider of its own dtype and that of the patterns, and at least float32."""
    return xi.to(torch.promote_types(wide(xi).dtype, wide(patterns).dtype))


def _log_normal_mass(low: Tensor, high: Tensor) -> Tensor:
    """log(Φ(high) − Φ(low)), computed in the lower tail, where nothing cancels."""
    upper = low + high > 0
    low, high = torch.where(upper, -high, low), torch.where(upper, -low, high)
    tail = torch.special.log_ndtr(high)
    return tail + torch.log(-torch.expm1(torch.special.log_ndtr(low) - tail))


def check_banks(
    patterns: ArrayLike, log_r: ArrayLike | None, values: ArrayLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Patterns (*B, K, d), log_r (*B, K) and values (*B, K, v) or None, as tensors, with the checks of `MemoryBank`."""
    shape = tuple(np.shape(patterns))
    if len(shape) < 3:
        bank = MemoryBank(patterns, log_r, values)
        return _as_tensor(bank.patterns), _as_tensor(bank.log_r), _as_tensor(bank.values)
    if 0 in shape:
        raise ValueError(f"patterns must be banks (..., K, d) with at least one row each; got shape {shape}.")
    if log_r is not None:
        if (got := tuple(np.shape(log_r))) not in (shape[:-1], shape[-2:-1]):
            raise ValueError(f"log_r must have shape ({shape[-2]},) or {shape[:-1]}, an entry per memory; got {got}.")
        logs = log_r if isinstance(log_r, Tensor) else torch.tensor(np.asarray(log_r))
        log_r = logs.expand(shape[:-1]).reshape(-1)
    if values is not None and (np.ndim(values) != len(shape) or tuple(np.shape(values))[:-1] != shape[:-1]):
        rule = f"values must have one row for each memory, shape ({', '.join(map(str, shape[:-1]))}, v)"
        remedy = " Pass values[..., None] for one number per memory." if np.shape(values) == shape[:-1] else ""
        raise ValueError(f"{rule}; got shape {tuple(np.shape(values))}.{remedy}")
    bank = MemoryBank(_flat(patterns), log_r, None if values is None else _flat(values))
    tensors = (_as_tensor(x) for x in (bank.patterns, bank.log_r, bank.values))
    rows, logs, read = (None if x is None else x.unflatten(0, shape[:-1]) for x in tensors)
    empty = torch.isneginf(logs).all(-1)
    if empty.any():
        first = tuple(empty.nonzero()[0].tolist())
        raise ValueError(f"log_r must leave at least one memory in every bank; bank {first} has only −inf.")
    return rows, logs, read


def beta_tensor(
    beta: float | str | Tensor, batch: tuple[int, ...], like: Tensor, learn_beta: bool, of: str = "bank"
) -> Tensor:
    """beta as a tensor like another, () or one for each bank of a batch; an nn.Parameter is returned as it is.

    learn_beta: whether any other beta becomes a parameter; of: what the batch consists of, for the messages
    """
    if isinstance(beta, Tensor) and not isinstance(beta, nn.Parameter) and beta.requires_grad:
        rule = "beta must be a number or an nn.Parameter; got a tensor that requires a gradient and is not a parameter"
        raise TypeError(f"{rule}. A module would detach it; pass nn.Parameter(beta), or learn_beta=True.")
    numbers = beta.detach() if isinstance(beta, Tensor) else beta
    if not isinstance(numbers, Tensor):
        numbers = torch.from_numpy(np.asarray(numbers if isinstance(numbers, np.ndarray) else check_beta(numbers)))
    fits = tuple(numbers.shape) == batch
    if numbers.ndim and not fits and (isinstance(beta, nn.Parameter) or numbers.numel() != 1):
        raise ValueError(f"beta must be one number, or one for each {of} {batch}; got shape {tuple(numbers.shape)}.")
    for number in numbers.flatten().tolist():
        check_beta(number)
    copied = numbers.to(like.device, like.dtype, copy=True).reshape(batch if fits else ())
    if isinstance(beta, nn.Parameter):
        return beta
    return nn.Parameter(copied) if learn_beta else copied


def add_tensors(module: nn.Module, learn: bool, **tensors: Tensor | None) -> None:
    """Make tensors parameters of a module if they are learned or nn.Parameters, and buffers otherwise."""
    for name, x in tensors.items():
        if isinstance(x, nn.Parameter) or learn:
            x = x if x is None or isinstance(x, nn.Parameter) else nn.Parameter(x)
            module.register_parameter(name, x)
        else:
            module.register_buffer(name, x)


def positive_beta(beta: Tensor, like: Tensor) -> Tensor:
    """beta in the dtype of another tensor; ValueError if learning made it negative, which is checked on the CPU."""
    eager = isinstance(beta, nn.Parameter) and beta.device.type == "cpu" and not torch.compiler.is_compiling()
    if eager and not (beta > 0).all():
        rule = f"beta must stay positive while it is learned; it is {float(beta.detach().min()):g}"
        raise ValueError(f"{rule}. Use a smaller learning rate, or clamp it after each step.")
    return beta.to(like.dtype)


def natural_beta(patterns: Tensor, log_r: Tensor) -> Tensor:
    """The natural beta of every bank, of shape B."""
    if patterns.ndim == 2:
        return patterns.new_tensor(natural(MemoryBank(patterns, log_r)))
    return torch.stack([natural_beta(*bank) for bank in zip(patterns, log_r, strict=True)])


def _flat(x: ArrayLike) -> ArrayLike:
    rows = x if isinstance(x, Tensor) else np.asarray(x)
    return rows.reshape(-1, rows.shape[-1])


def _as_tensor(x: ArrayLike | None) -> Tensor | None:
    return x if x is None or isinstance(x, Tensor) else torch.tensor(x[:])  # type: ignore[index]
