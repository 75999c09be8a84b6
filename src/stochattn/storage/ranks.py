"""The ranks of torch.distributed that share a bank, each with some of its rows: what they check and what they exchange.

Attention over all rows is a sum over ranks (see `Sums`). Ranks exchange n × (v + 2) numbers for n states, however many
memories there are: each rank receives its share of the states from all ranks, merges them in the order of the ranks,
and sends the result to all. These are two messages and the bytes of one ring all-reduce of n × (v + 2) numbers. Unlike
an all-reduce it needs no maximum beforehand, and the bits of a row do not depend on the rows beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .._backend.arrays import NumpyArray, is_torch
from .._backend.checks import first_line, is_out_of_memory
from .blockwise import Sums, relative_weight

RECORD_BYTES = 4096  # of the facts that a rank sends before it computes
MAX_MESSAGE = 900  # characters of an error message among them, of up to four bytes each
ERRORS: tuple[type[Exception], ...] = (ValueError, TypeError, MemoryError)
START = "Start the program with torchrun, and first call torch.distributed.init_process_group()."

Fact: TypeAlias = str | int | float | bool | list[int] | None
Group: TypeAlias = "dist.ProcessGroup | None"
Context: TypeAlias = "torch.autograd.function.FunctionCtx"
Value = TypeVar("Value")


class Checked(NamedTuple, Generic[Value]):
    """A checked argument, the facts by name that must be the same on every rank, and the facts that may differ."""

    value: Value
    same: Mapping[str, Fact]
    by_rank: Mapping[str, Fact] = {}


class Record(NamedTuple):
    """What a rank sends before it computes: the call, its facts, or the error that ended its checks."""

    call: str
    same: dict[str, Fact]
    by_rank: dict[str, Fact]
    error: str | None = None
    message: str = ""


class RankGroup:
    """The place of this process among those of a group, or of the default group for None; it holds some rows.

    All ranks must call its methods together.
    """

    def __init__(self, group: Group, rows: object) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(f"a sharded bank needs the processes of torch.distributed, and there are none. {START}")
        self.group, self.rank = group, dist.get_rank(group)
        if self.rank < 0:
            raise ValueError("group must contain this process; it does not. Pass the group that this rank belongs to.")
        pairs = (pair.split(":") for pair in str(dist.get_backend_config(group)).split(","))
        self.size, self.backends = dist.get_world_size(group), {pair[0]: pair[-1] for pair in pairs}  # by device
        # Facts are exchanged on the CPU if the group can, so that no device waits, and else on the device of the rows,
        # not on torch's current device, which all ranks may share.
        device = "cpu" if "cpu" in self.backends else next(iter(self.backends))
        self.facts_device = rows.device if is_torch(rows) and rows.device.type == device else device

    def require_backend(self, device: torch.device) -> None:
        """ValueError if the group cannot exchange tensors on a device."""
        if self.backends.get(device.type) in (None, "gloo" if device.type != "cpu" else "nccl"):
            rule = f"patterns must be on a device that the group can exchange, {dict(self.backends)}"
            raise ValueError(f"{rule}; got {device.type}. nccl takes CUDA tensors, and gloo tensors on the CPU.")

    def agree(self, call: str, check: Callable[[], Checked[Value]]) -> tuple[Value, list[dict[str, Fact]]]:
        """The value that `check` returns, and the facts of each rank; the same error on all ranks if a check fails.

        Each call begins with this, so that ranks with different arguments, or in different calls, do not wait for each
        other.
        """
        failed: Exception | None = None
        try:
            checked = check()
            record = Record(call, dict(checked.same), dict(checked.by_rank))
        except Exception as error:
            failed = error
            record = Record(call, {}, {}, type(error).__name__, first_line(error)[:MAX_MESSAGE])
        records = self._records(record)
        for rank, answer in enumerate(records):
            if answer.error is not None:
                kind = next((kind for kind in ERRORS if kind.__name__ == answer.error), RuntimeError)
                raise kind(f"rank {rank}: {answer.message}") from (failed if rank == self.rank else None)
        for rank, answer in enumerate(records):
            _require_same(records[0], rank, answer)
        return checked.value, [record.by_rank for record in records]

    def merge(self, sums: Sums, hard: bool = False) -> Sums:
        """The sums over the memories of all ranks, from those over the memories of each; hard: for beta = inf."""
        if not len(sums.top):
            return sums
        top, merged = _Merge.apply(sums.top, torch.cat((sums.total, sums.readout), 1), self, hard)
        return Sums(top, merged[:, :1], merged[:, 1:], sums.spread)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of the tensors of all ranks."""
        total: Tensor = x.contiguous().clone()
        with self._collective():
            dist.all_reduce(total, group=self.group)
        return total

    def gather(self, x: Tensor) -> Tensor:
        """The tensors of all ranks, which have one shape: (size, ...)."""
        parts: Tensor = x.new_empty((self.size, *x.shape))
        with self._collective():
            dist.all_gather(list(parts), x.contiguous(), group=self.group)
        return parts

    def numbers(self, x: float, device: torch.device) -> NumpyArray:
        """One number from each rank, in float64: (size,)."""
        return np.asarray(self.gather(torch.tensor(x, dtype=torch.float64, device=device)).cpu().numpy())

    def replicate(self, x: Tensor) -> Tensor:
        """x itself, which is the same on all ranks; its gradient is the sum of the gradients of all ranks."""
        same: Tensor = _Exchange.apply(x, self, False)
        return same

    def _merge_rows(self, packed: Tensor, hard: bool) -> Tensor:
        """Rows (top, sums) (n, 1 + v), relative to each rank's top, merged over ranks: (n, 1 + v)."""
        n, width = packed.shape
        share = -(-n // self.size)
        padded = packed.new_zeros((self.size * share, width))
        padded[:n] = packed
        received = torch.empty_like(padded)
        with self._collective():
            dist.all_to_all_single(received, padded, group=self.group)
        parts = received.view(self.size, share, width)
        top = parts[:, :, :1].amax(0)
        merged = torch.zeros_like(parts[0, :, 1:])
        for part in parts:  # not by `sum`, whose order of summation depends on the shape
            merged += relative_weight(part[:, :1], top, hard) * part[:, 1:]
        return self.gather(torch.cat((top, merged), 1)).view(-1, width)[:n]

    def _records(self, record: Record) -> list[Record]:
        text = json.dumps(record._asdict(), ensure_ascii=False).encode()
        if len(text) > RECORD_BYTES:
            # An error here would be raised on this rank alone, and the others would wait for it.
            short = Record(record.call, {}, {}, record.error or "ValueError", "the arguments are too long to compare.")
            text = json.dumps(short._asdict()).encode()
        line = torch.frombuffer(bytearray(text.ljust(RECORD_BYTES)), dtype=torch.uint8).to(self.facts_device)
        return [Record(**json.loads(bytes(answer))) for answer in self.gather(line).cpu().numpy()]

    @contextmanager
    def _collective(self) -> Iterator[None]:
        """A context in which torch's errors say what to do."""
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            lost = f"rank {self.rank} of {self.size} waited for a rank that ended, or that did not answer in time"
            remedy = "Look for the first error among the ranks, and start all of them again."
            reason = first_line(error).partition(". ")[0]  # gloo adds its own advice
            raise RuntimeError(f"{lost}: {reason}. {remedy}") from error


def checksum(x: Tensor) -> int:
    """A number that depends on every bit of a tensor, and on no order of summation."""
    bits = x.detach().contiguous().view(torch.int32 if x.itemsize == 4 else torch.int64).reshape(-1).long()
    return int((bits * (2 * torch.arange(len(bits), device=x.device) + 1)).sum())


def _require_same(first: Record, rank: int, record: Record) -> None:
    if first.call != record.call:
        raise ValueError(f"all ranks must make the same call; rank 0 calls {first.call} and rank {rank} {record.call}.")
    for name, expected in first.same.items():
        if (value := record.same.get(name)) != expected:
            differ = f"{name} must be the same on every rank; rank 0 has {expected} and rank {rank} {value}"
            raise ValueError(f"{differ}. Pass the same on all ranks; only rows, log_r and values are a rank's own.")


class _Merge(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """`RankGroup.merge`. The tops are constants, relative to which the sums are linear."""

    @staticmethod
    def forward(ctx: Context, top: Tensor, sums: Tensor, ranks: RankGroup, hard: bool) -> Tensor:
        merged = ranks._merge_rows(torch.cat((top, sums), 1), hard)
        highest = merged[:, :1].clone()
        ctx.save_for_backward(relative_weight(top, highest, hard))
        ctx.mark_non_differentiable(highest)
        ctx.ranks = ranks
        return highest, merged[:, 1:].clone()

    @staticmethod
    def backward(ctx: Context, _: Tensor, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, ctx.ranks.replicate(grad) * ctx.saved_tensors[0], None, None


class _Exchange(torch.autograd.Function):  # type: ignore[misc]
    """The sum over ranks, the same on all of them, or with `adds` False the identity: each is the other's gradient.

    Ranks that compute one loss from equal inputs each add a part of the gradient.
    """

    @staticmethod
    def forward(ctx: Context, x: Tensor, ranks: RankGroup, adds: bool) -> Tensor:
        ctx.ranks, ctx.adds = ranks, adds
        return ranks.sum(x) if adds else x.view_as(x)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Exchange.apply(grad, ctx.ranks, not ctx.adds), None, None
