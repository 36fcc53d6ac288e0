"""A scripted ACP agent for the tests: what it does is written in the prompt, one directive a line.

ASK: cmd        asks, and runs the command only when the option to allow once is chosen
SAY: text       says that as a line
CLOSE, DIE, HANG
"""

import json
import os
import signal
import subprocess
import sys
from typing import Any

OPTIONS = [
    {"optionId": "a", "kind": "allow_always", "name": "Always"},
    {"optionId": "b", "kind": "allow_once", "name": "Once"},
    {"optionId": "c", "kind": "reject_once", "name": "No"},
]


def say(message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def obey(number: int, line: str) -> None:
    word, _, rest = line.partition(": ")
    if word == "ASK":
        call = {"toolCallId": f"call-{number}", "title": rest, "kind": "execute"}
        params = {"sessionId": "fake-1", "options": OPTIONS, "toolCall": call}
        say({"id": number, "method": "session/request_permission", "params": params})
        if hear().get("result", {}).get("outcome") == {"outcome": "selected", "optionId": "b"}:
            subprocess.run(["sh", "-c", rest], check=True)
    elif word == "SAY":
        print(rest, flush=True)
    elif word == "CLOSE":
        os.close(1)
        signal.pause()
    elif word == "DIE":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "HANG":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()


def main() -> None:
    while True:
        message = hear()
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            say({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        elif method == "session/new":
            say({"id": number, "result": {"sessionId": "fake-1"}})
        elif method == "session/prompt":
            for i, line in enumerate(message["params"]["prompt"][0]["text"].splitlines()):
                obey(i, line)
            say({"id": number, "result": {"stopReason": "end_turn"}})


main()
