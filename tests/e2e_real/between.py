"""What stands between a driver and its CLI and lets through half of what it is to garble: JSON lines, or HTTP.

A program of the CLI's name, before it on PATH. It must be the driver's own child: it starts the real CLI itself.
"""

import shutil
import sys
from pathlib import Path
from typing import Literal

from tests.e2e_real.driven import OPENCODE, Kind
from tests.e2e_real.rig import Rig

Garbled = Literal["answer", "event", "ask"]
"""What is cut: the driver's answers; the news of an ask; whatever tells of one."""

COMMON = """#!{python}
import http.client, http.server, os, pathlib, re, subprocess, sys, threading
def half(data, end=b""):
    pathlib.Path({seen!r}).touch()
    return data[: len(data) // 2] + end
def start(**streams):
    cli = subprocess.Popen([{real!r}, *sys.argv[1:]], stdout=subprocess.PIPE, **streams)
    threading.Thread(target=lambda: os._exit(cli.wait()), daemon=True).start()
    return cli
"""

LINES = """
cli = start(stdin=subprocess.PIPE)
def hear():
    for line in cli.stdout:
        asks = any(b'"' + name + b'"' in line for name in {asks!r})
        sys.stdout.buffer.write(half(line, b"\\n") if asks and {garbled!r} != "answer" else line)
        sys.stdout.buffer.flush()
threading.Thread(target=hear, daemon=True).start()
for line in sys.stdin.buffer:
    answers = b'"method"' not in line and (b'"result"' in line or b"control_response" in line)
    cli.stdin.write(half(line, b"\\n") if answers and {garbled!r} == "answer" else line)
    cli.stdin.flush()
"""

HTTP = """
class Between(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if {garbled!r} == "answer" and self.path.startswith("/permission/"):
            body = half(body)
        server = http.client.HTTPConnection("127.0.0.1", port)
        headers = {{name: self.headers[name] for name in ("Authorization", "Content-Type")}}
        server.request(self.command, self.path, body or None, headers)
        reply = server.getresponse()
        self.send_response(reply.status)
        self.end_headers()
        for line in reply:
            listed = self.path == "/permission" and b"id" in line and {garbled!r} == "ask"
            told = b"permission.asked" in line and {garbled!r} != "answer"
            self.wfile.write(half(line, b"\\n") if listed or told else line)
            self.wfile.flush()
    do_POST = do_GET
cli = start()
for line in cli.stdout:
    if found := re.search(rb"listening on http://127.0.0.1:([0-9]+)", line):
        port = int(found.group(1))
        between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
        threading.Thread(target=between.serve_forever, daemon=True).start()
        line = line.replace(b":%d" % port, b":%d" % between.server_port)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""

ASKS = (b"item/commandExecution/requestApproval", b"can_use_tool", b"session/request_permission")


def garbles(rig: Rig, kind: Kind, garbled: Garbled) -> Path:
    """Put it there; the file that it makes once it has garbled something."""
    seen, name = rig.tmp / "seen", kind.command[0]
    real = shutil.which(name, path=rig.env["PATH"])
    program = rig.tmp / "between" / name
    program.parent.mkdir()
    text = COMMON + (HTTP if kind is OPENCODE else LINES)
    program.write_text(text.format(python=sys.executable, real=real, seen=str(seen), asks=ASKS, garbled=garbled))
    program.chmod(0o755)
    rig.env["PATH"] = f"{program.parent}:{rig.env['PATH']}"
    return seen
