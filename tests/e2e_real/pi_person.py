"""A real pi with a person before it: `pi --mode rpc`, whose dialogs come as JSON lines and are answered by the test.

Owns one process, in the environment of its rig; `close` ends it as its host would: by closing its standard input.
"""

import json
import subprocess
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tests.e2e_real.processes import until
from tests.e2e_real.rig import Rig

Dialog = dict[str, Any]
YES, NO, NO_WITH_REASON = "Yes", "No", "No, provide reason"
"""What the permission extension offers."""

END_SECONDS = 30.0


class RpcPi:
    """`person` answers each dialog: the value that is chosen or typed. `dialogs` are all that were shown."""

    def __init__(self, rig: Rig, session: str, words: tuple[str, ...], *, person: Callable[[Dialog], str]) -> None:
        self.session = session
        self.dialogs: list[Dialog] = []
        self.said: list[dict[str, Any]] = []
        self._person = person
        errors = (rig.tmp / f"{session}.err").open("wb")
        with errors:
            self._process = subprocess.Popen(
                ["pi", "--mode", "rpc", "--session-id", session, *words],
                env=rig.env,
                cwd=rig.cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.send({"type": "get_state", "id": "up"})
        until(lambda: [m for m in self.said if m.get("id") == "up"], f"pi is up: {errors.name}")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """One line to pi."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            self.said.append(message)
            if message.get("type") == "extension_ui_request" and message.get("method") in ("select", "input"):
                self.dialogs.append(message)
                value = self._person(message)
                self.send({"type": "extension_ui_response", "id": message["id"], "value": value})

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> "RpcPi":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.close()
