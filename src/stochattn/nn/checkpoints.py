"""Recognizes calls that torch.utils.checkpoint repeats in the backward pass, so that they repeat their noise.

A checkpoint restores the state of torch's default generator before it repeats a forward pass. Each call in a checkpoint
therefore draws one number of that generator: the repeated call draws the same number, and no other call does.
"""

from __future__ import annotations

import sys
from threading import Lock
from types import FrameType
from typing import Generic, NoReturn, TypeVar

import torch
import torch.utils.checkpoint
from torch import Tensor

T = TypeVar("T")
MAX_CALLS = 4096  # calls that wait for their backward pass; the state of a generator takes 5 kB
MAX_FORGOTTEN = 1 << 16  # numbers of older calls, which are kept so that their backward pass raises an error
_CHECKPOINT = torch.utils.checkpoint.__file__


def in_backward() -> bool:
    """Whether autograd is running a backward pass on this thread; a forward pass is then one that is repeated."""
    return bool(torch._C._current_graph_task_id() != -1)


def in_checkpoint() -> bool:
    """Whether the forward pass that runs now will be repeated in the backward pass."""
    return _checkpoint_frame() is not None


def _checkpoint_frame() -> FrameType | None:
    """The innermost call of a checkpoint among the callers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # other libraries name their re-entrant checkpoints after the one of torch
        if code.co_filename == _CHECKPOINT or code.co_qualname.endswith("CheckpointFunction.forward"):
            return frame
        frame = frame.f_back
    return None


class RepeatedCalls(Generic[T]):
    """Values of calls in checkpoints: what a call stored is returned to the call that repeats it."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[T]] = {}
        self._repeated: dict[int, T] = {}
        self._forgotten: dict[int, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._repeated)

    def store(self, value: T) -> None:
        """Keep the value of this call, which runs in a checkpoint, for its repetition."""
        frame = _checkpoint_frame()
        seen = {} if frame is None else frame.f_locals
        if False in [seen.get(name) for name in ("preserve_rng_state", "preserve")]:  # re-entrant, and not re-entrant
            rule = "preserve_rng_state must be True in a checkpoint with Langevin steps"
            raise RuntimeError(f"{rule}: its backward pass repeats them by the state of torch's generator; got False.")
        with self._lock:
            number = _number()
            self._forgotten.pop(number, None)
            self._waiting.setdefault(number, []).append(value)
            for calls in (self._waiting, self._repeated):
                while len(calls) > MAX_CALLS:
                    oldest = next(iter(calls))
                    del calls[oldest]
                    self._forgotten[oldest] = None
            while len(self._forgotten) > MAX_FORGOTTEN:
                del self._forgotten[next(iter(self._forgotten))]

    def find(self) -> T | None:
        """The value of the call that this one repeats, or None if it is not known; then no number is drawn."""
        before = torch.get_rng_state()
        number = _number()
        with self._lock:
            waiting = self._waiting.pop(number, [])
            if len(waiting) > 1:
                _refuse_ambiguous()
            if waiting:
                self._repeated[number] = waiting[0]  # a graph that is retained repeats it again
            value = self._repeated.get(number)
            if value is None and number in self._forgotten:
                rule = f"at most {MAX_CALLS:,} calls of a layer in checkpoints may wait for their backward pass"
                raise RuntimeError(f"{rule}: this one is older and was forgotten. Call backward more often.")
        if value is None:
            torch.set_rng_state(before)
        return value

    def supersede(self) -> None:
        """Forget the call that drew the number which this call would draw: a repetition will then repeat this call."""
        before = torch.get_rng_state()
        number = _number()
        torch.set_rng_state(before)
        with self._lock:
            if number in self._waiting:
                _refuse_ambiguous()
            self._repeated.pop(number, None)
            self._forgotten.pop(number, None)


_STATES = RepeatedCalls[Tensor]()


def repeatable(generator: torch.Generator) -> torch.Generator:
    """The generator, or, in a call that a checkpoint repeats, another one in the state that it had at first."""
    if in_backward():
        if (state := _STATES.find()) is None:
            rule = "generator must be None in a checkpoint that does not restore the state of torch's generator"
            raise RuntimeError(f"{rule}: the noise of this call cannot be repeated. Use torch.utils.checkpoint.")
        generator = torch.Generator(generator.device)
        generator.set_state(state)
    elif in_checkpoint():
        _STATES.store(generator.get_state())
    return generator


def _number() -> int:
    return int(torch.randint(2**62, (), device="cpu"))


def _refuse_ambiguous() -> NoReturn:
    rule = "torch.manual_seed must not be called between two passes with checkpoints and a generator"
    raise RuntimeError(f"{rule}: it is unknown which of them is repeated. Call backward first, or use no generator.")
