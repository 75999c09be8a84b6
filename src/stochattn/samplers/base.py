"""The interface of a sampler. The loop that drives every sampler is in `runner.py`.

To add a sampler, write a file with its options (a frozen dataclass), its state (a NamedTuple) and a subclass of
`Sampler`, and register it by one line: in `registry.py`, or by `stochattn.register_sampler` from outside. The contract
tests then run over it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from .. import kernels
from .._backend.arrays import Array
from .._backend.checks import step_size
from .._backend.random import Streams
from .attention import ChainAttention
from .complement import Complement, NoComplement, Space

if TYPE_CHECKING:
    from ..kernels.launch import Chains
    from ..kernels.philox import Philox


class ChainState(Protocol):
    """The state of a batch of chains: a NamedTuple of arrays with one row per chain, and of numbers that all share.

    Beside these fields it has whatever the sampler carries from step to step, such as a momentum. Rows beyond the
    chains of a run are idle.
    """

    @property
    def xi(self) -> Array:
        """(rows, r) positions in the space where the chains run."""

    @property
    def complement(self) -> Complement:
        """The part of the positions outside that space."""


StateT = TypeVar("StateT", bound=ChainState)


class Sampler(ABC, Generic[StateT]):
    """An algorithm that advances a batch of chains in `space`.

    Options:     a frozen dataclass; `run` takes its fields as keyword arguments, and its __post_init__ checks them
    State:       the NamedTuple that `init` and `advance` return
    Outside:     the complement of the states where the space is smaller than d; elsewhere it is `NoComplement`
    independent: whether every step is a new draw, so that only the last of several needs to be made
    attention:   the attention that the sampler evaluates, which the record of the run then shares
    """

    Options: ClassVar[type]
    State: ClassVar[type]
    Outside: ClassVar[type]
    independent: ClassVar[bool] = False
    attention: ChainAttention | None = None

    space: Space

    @abstractmethod
    def init(self, noise: Streams, x: Array, beta: float) -> StateT:
        """The state at starting positions x (rows, d) in the full space."""

    @abstractmethod
    def advance(self, noise: Streams, state: StateT, beta: float, steps: int) -> tuple[StateT, Array | None]:
        """The state after that many steps, and how many proposals each chain rejected (rows, 1), or None for none.

        `noise` is at the first of these steps, and the sampler moves it on. The arrays of `state` must not change.
        """

    def fused(self) -> Callable[..., tuple[StateT, Array | None] | None] | None:
        """`advance` as one launch on a device, which returns None for states that it cannot hold; None without one."""
        return None

    def restore(self, values: Mapping[str, Array | float]) -> StateT:
        """The state that `state_values` wrote as arrays and numbers by name."""
        outside = self.Outside if self.space.codimension else NoComplement
        complement = outside(*(values[f"complement.{name}"] for name in outside._fields))  # type: ignore[attr-defined]
        fields = self.State._fields  # type: ignore[attr-defined]
        state: StateT = self.State(*(complement if name == "complement" else values[name] for name in fields))
        return state


AnySampler: TypeAlias = Sampler[Any]


@dataclass(frozen=True)
class LangevinOptions:
    """Options of ULA and MALA. alpha: the step size, between 0 and 1."""

    alpha: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", step_size(self.alpha))


class Langevin(Sampler[StateT]):
    """What ULA and MALA share. program: the name of their GPU kernel."""

    Options = LangevinOptions
    program: ClassVar[str]
    attention: ChainAttention

    def __init__(self, space: Space, options: LangevinOptions) -> None:
        self.space, self.alpha = space, options.alpha
        self.attention = ChainAttention(space.bank)

    def fused(self) -> Callable[..., tuple[StateT, Array | None] | None] | None:
        """The kernel, if there is one for this space."""
        bank = self.space.bank
        chains = kernels.chains(self.program, bank.patterns, bank.log_r, self.alpha, self.space.codimension)
        if chains is None:
            return None
        return lambda noise, state, beta, steps: (
            self._launch(chains, noise, state, beta, steps) if chains.fits(state.xi, beta) else None
        )

    @abstractmethod
    def _launch(
        self, chains: Chains, noise: Philox, state: StateT, beta: float, steps: int
    ) -> tuple[StateT, Array | None]: ...


def state_values(state: ChainState) -> dict[str, Array | float]:
    """The arrays and numbers of a state by name; those of the complement are named complement.field."""
    values: dict[str, Array | float] = dict(state._asdict())  # type: ignore[attr-defined]
    complement = values.pop("complement")._asdict()  # type: ignore[union-attr]
    return values | {f"complement.{name}": value for name, value in complement.items()}


def map_arrays(function: Callable[[Array], Array], values: Mapping[str, Array | float]) -> dict[str, Array | float]:
    """The values with the function applied to the arrays among them."""
    return {name: function(value) if np.ndim(value) else value for name, value in values.items()}
