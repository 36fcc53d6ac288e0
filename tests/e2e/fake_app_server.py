"""A CLI with Codex's protocol that misbehaves as its prompt says, one word or `word: rest` a line. Not a test.

Its tool is honest: it runs a command if, and only if, it has been answered `accept`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SESSION = "01900000-0000-7000-8000-000000000001"


def say(message: Any) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def hear() -> Any:
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)


def ask(command: str, changed: dict[str, Any]) -> None:
    """Ask, with parts of the request changed, and run it when that was allowed."""
    about = {"threadId": SESSION, "turnId": "t", "itemId": "i", "command": command, "cwd": os.getcwd()}
    say({"method": "item/commandExecution/requestApproval", "id": 7, "params": about | changed})
    while (heard := hear()).get("id") != 7:
        pass
    if heard.get("result") == {"decision": "accept"}:
        subprocess.run(["/bin/sh", "-c", command], check=False)


def stray(command: str) -> None:
    """A helper in a session of its own, without a parent, that ignores what asks it to end. It is up on return."""
    pids = Path("pids")
    before = pids.read_text() if pids.exists() else ""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    script = f"(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >> pids; {command}' &) "
    subprocess.run(["/bin/sh", "-c", script], check=False, **quiet)  # type: ignore[call-overload]
    while not (pids.exists() and len(pids.read_text()) > len(before)):
        time.sleep(0.01)


def obey(line: str) -> None:
    word, _, rest = line.partition(": ")
    if word == "ASK":
        ask(rest, {})
    elif word == "ASK WRONGLY":
        ask("touch MARK", json.loads(rest))
    elif word == "SAY":
        say(rest)
    elif word == "STRAY":
        stray(rest)
    elif word == "RUN":
        subprocess.run(["/bin/sh", "-c", rest], check=False)
    elif word == "DIE":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "CLOSE":
        os.close(1)
        signal.pause()
    elif word == "HANG":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()


def main() -> None:
    while True:
        heard = hear()
        call, method = heard.get("id"), heard.get("method")
        if method == "initialize":
            say({"id": call, "result": {}})
        elif method in ("thread/start", "thread/resume"):
            say({"id": call, "result": {"thread": {"id": SESSION, "path": None}}})
        elif method == "turn/start":
            say({"id": call, "result": {"turn": {"id": "t"}}})
            for line in heard["params"]["input"][0]["text"].splitlines():
                obey(line)
            turn = {"id": "t", "status": "completed"}
            say({"method": "turn/completed", "params": {"threadId": SESSION, "turn": turn}})


if __name__ == "__main__":
    main()
