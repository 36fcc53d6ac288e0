"""Run one command beside an event loop: bounded output, a time limit, ended with whoever waits for it.

For surfaces that have a loop (and so never fork). Needs anyio, which comes with the extra that such a surface needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream

MAX_OUTPUT = 4 * 1024 * 1024


class Ran(Struct, frozen=True):
    """How it ended. Of a longer output only the last `MAX_OUTPUT` bytes are here, and `cut` says so."""

    code: int
    out: bytes
    err: bytes
    cut: bool = False


async def run_command(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdin: bytes = b"", timeout_s: float
) -> Ran:
    """Run it to its end. A cancelled caller takes it along (it is our child, not reaped: certainly the one meant).

    Raises:
        TimeoutError: it was killed after `timeout_s`. OSError: it could not be started.
    """
    import anyio

    with anyio.fail_after(timeout_s):
        async with await anyio.open_process(argv, env=env, cwd=cwd, start_new_session=True) as process:
            out, err = _Tail(), _Tail()
            async with anyio.create_task_group() as tasks:
                assert process.stdin and process.stdout and process.stderr
                tasks.start_soon(out.read, process.stdout)
                tasks.start_soon(err.read, process.stderr)
                try:
                    await process.stdin.send(stdin)
                    await process.stdin.aclose()
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError, ConnectionError):
                    pass  # it did not want all of it; its own message says why
            code = await process.wait()
    return Ran(code, bytes(out.data), bytes(err.data), out.cut)


class _Tail:
    """The end of a stream; the rest is read and dropped, so that the writer is never blocked."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.cut = False

    async def read(self, stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            self.data += chunk
            if len(self.data) > MAX_OUTPUT:
                self.cut = True
                del self.data[:-MAX_OUTPUT]
