"""Run a program in a network namespace of its own, into which one port of this machine is brought.

    python -m tests.support.conformance.network_namespace outside SOCKET PORT
    unshare --net python -m tests.support.conformance.network_namespace inside SOCKET PORT PROGRAM [ARGUMENT …]

A Unix socket is a file, so it joins both sides: outside, what comes in by the socket goes to the port; inside, what
comes in at the port goes to the socket.
"""

from __future__ import annotations

import asyncio
import fcntl
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from slipway_sandbox.host.child_process import end_with_parent

_LOOPBACK = "127.0.0.1"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_INTERFACE_REQUEST = "16sH14s"
_CHUNK_BYTES = 65536
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def can_be_made() -> str | None:
    """Return why this machine makes no network namespaces for us; None where it does."""
    try:
        tried = subprocess.run(
            ["unshare", "--map-root-user", "--net", "true"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return "there is no `unshare` on PATH (util-linux has it)"
    return None if tried.returncode == 0 else tried.stderr.strip()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


def _joined_with(connect: Callable[[], Awaitable[Streams]]) -> Callable[..., Awaitable[None]]:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await connect()
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))

    return join


async def _outside(path: str, port: int) -> int:
    server = await asyncio.start_unix_server(
        _joined_with(lambda: asyncio.open_connection(_LOOPBACK, port)), path
    )
    await server.serve_forever()
    return 0


async def _inside(path: str, port: int, command: list[str]) -> int:
    # What the one who started us had set for that is lost with the new namespace.
    end_with_parent()
    _raise_loopback()
    await asyncio.start_server(_joined_with(lambda: asyncio.open_unix_connection(path)), _LOOPBACK, port)
    process = await asyncio.create_subprocess_exec(*command, preexec_fn=end_with_parent)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.terminate)
    return await process.wait()


def _raise_loopback() -> None:
    """Raise the interface `lo`, which is down in a new namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack(_INTERFACE_REQUEST, b"lo", 0, b"")
        flags = struct.unpack(_INTERFACE_REQUEST, fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_INTERFACE_REQUEST, b"lo", flags | _IFF_UP, b""))


def main() -> int:
    """Serve one side; return an exit code."""
    side, path, port, *command = sys.argv[1:]
    return asyncio.run(_outside(path, int(port)) if side == "outside" else _inside(path, int(port), command))


if __name__ == "__main__":
    sys.exit(main())
