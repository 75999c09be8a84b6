"""Results that several sessions share: each is computed once, by the first thread that asks for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The last results by key, at most `size`. Errors are not kept: the next call tries again."""

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._known: OrderedDict[Hashable, Future[T]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute` for this key; a thread that asks while another computes it waits for that one."""
        with self._lock:
            known = self._known.get(key)
            mine = known is None
            if known is None:
                known = self._known[key] = Future()
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        if mine:
            try:
                known.set_result(compute())
            except BaseException as error:
                with self._lock:
                    if self._known.get(key) is known:
                        del self._known[key]
                known.set_exception(error)
        return known.result()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            known = self._known.get(key)
            return known is not None and known.done()
