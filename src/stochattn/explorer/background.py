"""Work outside the event loop, in threads that do not keep the program from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of work in a thread of its own. Unlike those of an executor, it ends with the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def report(method: str, value: object) -> None:
        def deliver() -> None:
            if not future.done():
                getattr(future, method)(value)

        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(deliver)

    def run() -> None:
        try:
            found = work()
        except Exception as error:
            report("set_exception", error)
        else:
            report("set_result", found)

    threading.Thread(target=run, daemon=True, name="stochattn-explorer").start()
    return await future
