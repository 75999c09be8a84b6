"""Real servers of pages, which all tests of a module share."""

import asyncio
import threading

from stochattn.explorer.server import Server


class Pages:
    """Servers of several explorers in one thread."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._servers = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work):
        async def run():
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)

    def serve(self, explorer, title="made"):
        """The server of an explorer."""

        def begin():
            server = Server(explorer, title=title)
            server.start()
            self._servers.append(server)
            return server

        return self._call(begin)

    def close(self):
        for server in self._servers:
            self._call(server.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
