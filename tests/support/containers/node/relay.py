"""Lets pods reach a server that listens on this machine's loopback only, or this machine a pod; tests make it hang."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from slipway_sandbox.host.ports import LOOPBACK
from tests.support.containers.node.enclosure import GATEWAY

_CHUNK_BYTES = 65536


class Relay(threading.Thread):
    """Takes connections at one address, and carries them to another.

    :param port: where they are carried to.
    :param target: the address of that port.
    :param at: the address and port that take them; port 0: any.
    """

    def __init__(self, port: int, target: str = LOOPBACK, at: tuple[str, int] = (GATEWAY, 0)) -> None:
        super().__init__(name=f"relay-to-{port}", daemon=True)
        self._target, self._host = (target, port), at[0]
        self._loop = asyncio.new_event_loop()
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        # What may pass before it hangs; None: everything.
        self._left_bytes: int | None = None
        self._server = self._loop.run_until_complete(asyncio.start_server(self._carry, *at))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_waited_for = threading.Event()

    @property
    def address(self) -> str:
        """Where it is found."""
        return f"{self._host}:{self.port}"

    def run(self) -> None:
        """Serve until the end."""
        self._loop.run_forever()

    def hang(self, after_bytes: int = 0) -> None:
        """Answer nothing more once so much has passed; connections stay open."""
        self.is_waited_for.clear()
        self._loop.call_soon_threadsafe(self._set_left, after_bytes)

    def resume(self) -> None:
        """Answer again, what waits too."""
        self._loop.call_soon_threadsafe(self._set_left, None)

    def stop(self) -> None:
        """End the thread; open connections break."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        self._set_left(None)
        for writer in self._writers:
            writer.close()
        carrying = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*carrying, return_exceptions=True)

    def _set_left(self, after_bytes: int | None) -> None:
        self._left_bytes = after_bytes
        if after_bytes is None:
            self._goes_on.set()
        else:
            self._goes_on.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        both = {writer, there_writer}
        self._writers |= both
        await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
        self._writers -= both

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self._left_bytes is not None:
                    self._left_bytes -= len(data)
                    if self._left_bytes < 0:
                        self.is_waited_for.set()
                        await self._goes_on.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
