#!/usr/bin/env python3
"""Fake LLM server for testing coding-agent CLIs without a network (stdlib only).

    fakellm.py [--port N] [--port-file FILE] [--log FILE.jsonl]

Binds 127.0.0.1 only.  Port 0 (default) lets the kernel choose; the chosen port
is printed, and written to --port-file if given.

Protocols (chosen by path; any prefix such as /anthropic is ignored):
    Anthropic Messages     POST  …/v1/messages              (SSE or JSON)
                           POST  …/v1/messages/count_tokens
    OpenAI Responses       POST  …/responses                (SSE or JSON)
    OpenAI Chat            POST  …/chat/completions         (SSE or JSON)
    Gemini                 POST  …/models/M:generateContent
                           POST  …/models/M:streamGenerateContent
                           POST  …/models/M:countTokens
    model lists            GET   …/models

What the "model" does is written in the last user prompt, one directive a line:
    RUN: <cmd>           call the agent's shell tool; several lines = one a turn
    PAR: <cmd>           all PAR lines become parallel calls in the first turn
    TOOL: <name> <json>  call any tool (Responses: <namespace>/<name>, too)
    DELAY: <seconds>     wait before answering (each request of this prompt)
    ERROR: <status>      answer with that HTTP status
When all directives have results (or there were none) it answers with
    TOOLRESULT<<result of the last call>> [turn N]
where N counts the user prompts in the history, so a resumed session shows N > 1.
"""

# mypy: ignore-errors
import argparse
import json
import re
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHELL_TOOLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command")
CONTEXT = re.compile(  # text which agents add to the user's turn by themselves
    r"<(system-reminder|environment_context|user_instructions|INSTRUCTIONS|permissions instructions|turn_aborted"
    r"|session_context|hook_context)>.*?</\1>|^# AGENTS\.md instructions.*?$",
    re.S | re.M,
)


# ---------------------------------------------------------------- the "model"


def flat(content):
    """Text of a content value: string, or list of parts with 'text'."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    return "".join(p if isinstance(p, str) else p.get("text", "") for p in content or [])


def shell_call(tools, cmd):
    """(name, arguments) for the shell tool in tools = {name: json schema}."""
    name = next((n for n in SHELL_TOOLS if n in tools), "bash")
    schema = tools.get(name) or {}
    props = schema.get("properties") or {}
    key = "cmd" if "cmd" in props else "command"
    is_list = (props.get(key) or {}).get("type") == "array"
    args = {key: ["bash", "-c", cmd] if is_list else cmd}
    for req in schema.get("required") or []:
        args.setdefault(req, "run a test command")
    return name, args


def plan(items, tools):
    """items: [("user"|"assistant"|"result", text)].  -> (calls, text, delay, error)"""
    prompts = [i for i, (kind, text) in enumerate(items) if kind == "user" and CONTEXT.sub("", text).strip()]
    last = prompts[-1] if prompts else -1
    prompt = CONTEXT.sub("", items[last][1]) if prompts else ""
    results = [text for kind, text in items[last + 1 :] if kind == "result"]
    seq, par, delay, error = [], [], 0.0, None
    for line in prompt.splitlines():
        head, _, rest = line.strip().partition(": ")
        if head == "RUN":
            seq.append([shell_call(tools, rest)])
        elif head == "PAR":
            par.append(shell_call(tools, rest))
        elif head == "TOOL":
            name, _, args = rest.partition(" ")
            seq.append([(name, json.loads(args or "{}"))])
        elif head == "DELAY":
            delay = float(rest)
        elif head == "ERROR":
            error = int(rest)
    turns, done = ([par] if par else []) + seq, len(results)
    if tools:
        for calls in turns:
            if done <= 0:
                return calls, "", delay, error
            done -= len(calls)
    last_result = results[-1] if results else "(none)"
    return [], f"TOOLRESULT<<{last_result}>> [turn {len(prompts)}]", delay, error


def instance(schema):
    """A minimal JSON value which satisfies a simple JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        return {k: instance(v) for k, v in (schema.get("properties") or {}).items()}
    return {"string": "fake", "array": [], "integer": 1, "number": 1, "boolean": False}.get(kind)


def new_id(prefix):
    return prefix + uuid.uuid4().hex[:20]


# ------------------------------------------------------------- the protocols
# Each has parse(req) -> (items, tools, schema or None) and
# stream(req, calls, text) -> iterator of SSE (event or None, data) pairs,
# whole(req, calls, text) -> one JSON body.


class Anthropic:
    @staticmethod
    def parse(req):
        items = []
        for m in req.get("messages", []):
            content = m.get("content")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            results = [p for p in parts if p.get("type") == "tool_result"]
            for p in results:
                items.append(("result", flat(p.get("content"))))
            text = flat([p for p in parts if p.get("type") == "text"])
            if text and not results:
                items.append((m["role"], text))
        tools = {t["name"]: t.get("input_schema") for t in req.get("tools", []) if "name" in t}
        wanted = (req.get("output_config") or {}).get("format") or req.get("output_format") or {}
        schema = wanted.get("schema")
        return items, tools, schema

    @staticmethod
    def blocks(calls, text):
        if not calls:
            return [{"type": "text", "text": text}], "end_turn"
        uses = [{"type": "tool_use", "id": new_id("toolu_"), "name": n, "input": a} for n, a in calls]
        return uses, "tool_use"

    @classmethod
    def whole(cls, req, calls, text):
        blocks, stop = cls.blocks(calls, text)
        return {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": req.get("model"),
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }

    @classmethod
    def stream(cls, req, calls, text):
        msg = cls.whole(req, calls, text)
        blocks, stop = msg["content"], msg["stop_reason"]
        msg.update(content=[], stop_reason=None, usage={"input_tokens": 10, "output_tokens": 1})
        yield "message_start", {"type": "message_start", "message": msg}
        for i, b in enumerate(blocks):
            empty = {**b, "input": {}} if b["type"] == "tool_use" else {**b, "text": ""}
            delta = (
                {"type": "input_json_delta", "partial_json": json.dumps(b["input"])}
                if b["type"] == "tool_use"
                else {"type": "text_delta", "text": b["text"]}
            )
            yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": empty}
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": i}
        yield (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": 5},
            },
        )
        yield "message_stop", {"type": "message_stop"}


class Responses:
    @staticmethod
    def parse(req):
        items, inp = [], req.get("input") or []
        if isinstance(inp, str):
            inp = [{"type": "message", "role": "user", "content": inp}]
        for it in inp:
            kind = it.get("type", "message")
            if kind == "message" and it.get("role") in ("user", "assistant"):
                items.append((it["role"], flat(it.get("content"))))
            elif kind.endswith("_call_output"):
                out = it.get("output")
                items.append(("result", out if isinstance(out, str) else flat(out) or json.dumps(out)))
        tools = {t.get("name") or t.get("type"): t.get("parameters") for t in req.get("tools") or []}
        schema = ((req.get("text") or {}).get("format") or {}).get("schema")
        return items, tools, schema

    @staticmethod
    def output(calls, text):
        if not calls:
            return [
                {
                    "type": "message",
                    "id": new_id("msg_"),
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                }
            ]
        return [
            {
                "type": "function_call",
                "id": new_id("fc_"),
                "call_id": new_id("call_"),
                **dict(zip(("name", "namespace"), reversed(n.split("/", 1)), strict=False)),
                "arguments": json.dumps(a),
                "status": "completed",
            }
            for n, a in calls
        ]

    @classmethod
    def whole(cls, req, calls, text):
        return {
            "id": new_id("resp_"),
            "object": "response",
            "status": "completed",
            "model": req.get("model"),
            "output": cls.output(calls, text),
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 15,
            },
        }

    @classmethod
    def stream(cls, req, calls, text):
        resp = cls.whole(req, calls, text)
        start = {**resp, "status": "in_progress", "output": [], "usage": None}
        yield "response.created", {"type": "response.created", "response": start}
        for i, item in enumerate(resp["output"]):
            bare = {**item, "status": "in_progress"}
            if item["type"] == "message":
                bare["content"] = []
            else:
                bare["arguments"] = ""
            yield "response.output_item.added", {"type": "response.output_item.added", "output_index": i, "item": bare}
            if item["type"] == "message":
                yield (
                    "response.output_text.delta",
                    {
                        "type": "response.output_text.delta",
                        "item_id": item["id"],
                        "output_index": i,
                        "content_index": 0,
                        "delta": text,
                    },
                )
            else:
                yield (
                    "response.function_call_arguments.done",
                    {
                        "type": "response.function_call_arguments.done",
                        "item_id": item["id"],
                        "output_index": i,
                        "arguments": item["arguments"],
                    },
                )
            yield "response.output_item.done", {"type": "response.output_item.done", "output_index": i, "item": item}
        yield "response.completed", {"type": "response.completed", "response": resp}


class Chat:
    @staticmethod
    def parse(req):
        items = []
        for m in req.get("messages", []):
            kind = {"tool": "result"}.get(m["role"], m["role"])
            if kind in ("user", "assistant", "result") and m.get("content"):
                items.append((kind, flat(m["content"])))
            elif kind == "result":
                items.append((kind, ""))
        tools = {
            t["function"]["name"]: t["function"].get("parameters")
            for t in req.get("tools") or []
            if t.get("type") == "function"
        }
        schema = ((req.get("response_format") or {}).get("json_schema") or {}).get("schema")
        return items, tools, schema

    @staticmethod
    def calls(calls):
        return [
            {"index": i, "id": new_id("call_"), "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, (n, a) in enumerate(calls)
        ]

    @classmethod
    def whole(cls, req, calls, text):
        msg = {"role": "assistant", "content": None if calls else text}
        if calls:
            msg["tool_calls"] = cls.calls(calls)
        return {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": req.get("model"),
            "choices": [{"index": 0, "message": msg, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }

    @classmethod
    def stream(cls, req, calls, text):
        base = {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": req.get("model"),
        }

        def chunk(delta, fin=None, **more):
            return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": fin}], **more}

        yield chunk({"role": "assistant", "content": ""})
        if calls:
            yield chunk({"tool_calls": cls.calls(calls)})
        else:
            yield chunk({"content": text})
        yield chunk(
            {},
            "tool_calls" if calls else "stop",
            usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        )
        yield None, "[DONE]"


class Gemini:
    @staticmethod
    def parse(req):
        items = []
        for c in req.get("contents") or []:
            role = {"model": "assistant"}.get(c.get("role"), "user")
            results = [p["functionResponse"] for p in c.get("parts", []) if "functionResponse" in p]
            for r in results:
                resp = r.get("response") or {}
                items.append(("result", resp.get("output") or resp.get("error") or json.dumps(resp)))
            text = flat([p for p in c.get("parts", []) if "text" in p])
            if text and not results:
                items.append((role, text))
        tools = {
            f["name"]: f.get("parametersJsonSchema") or f.get("parameters")
            for t in req.get("tools") or []
            for f in t.get("functionDeclarations") or []
        }
        conf = req.get("generationConfig") or {}
        return items, tools, conf.get("responseJsonSchema") or conf.get("responseSchema")

    @staticmethod
    def whole(req, calls, text):
        parts = [{"functionCall": {"name": n, "args": a}} for n, a in calls] or [{"text": text}]
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "fake",
        }

    @classmethod
    def stream(cls, req, calls, text):
        yield None, cls.whole(req, calls, text)


# ------------------------------------------------------------------ the server


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_lock = threading.Lock()
    log_file = None

    def log_message(self, *args):
        pass

    def note(self, **rec):
        with self.log_lock:
            if self.log_file:
                self.log_file.write(json.dumps({"t": round(time.time(), 3), **rec}) + "\n")

    @classmethod
    def close_log(cls):
        with cls.log_lock:
            if cls.log_file:
                cls.log_file.close()
            cls.log_file = None

    def send_json(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self):
        self.note(method=self.command, path=self.path)
        if self.path.split("?")[0].endswith("/models"):
            self.send_json(
                {"object": "list", "data": [{"id": "fake", "object": "model", "type": "model"}], "models": []}
            )
        else:
            self.send_json({"ok": True})

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            req = json.loads(raw or b"{}")
        except ValueError:
            req = {}
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.send_json({"input_tokens": 10})
        if path.endswith(":countTokens"):
            return self.send_json({"totalTokens": 10})
        streaming = bool(req.get("stream"))
        if path.endswith("/messages"):
            proto = Anthropic
        elif path.endswith("/responses"):
            proto = Responses
        elif path.endswith("/chat/completions"):
            proto = Chat
        elif path.endswith(("generateContent", "streamGenerateContent")):
            proto, streaming = Gemini, path.endswith("streamGenerateContent")
        else:
            self.note(method="POST", path=self.path, unknown=True)
            return self.send_json({"error": {"type": "not_found", "message": path}}, 404)
        items, tools, schema = proto.parse(req)
        calls, text, delay, error = plan(items, tools)
        if schema and not calls:
            text = json.dumps(instance(schema))
        self.note(method="POST", path=self.path, calls=calls, text=text, req=req)
        time.sleep(delay)
        if error:
            return self.send_json(
                {"type": "error", "error": {"type": "fake_error", "code": error, "message": "fake error"}}, error
            )
        if not streaming:
            return self.send_json(proto.whole(req, calls, text))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event, data in proto.stream(req, calls, text):
            head = f"event: {event}\n" if event else ""
            body = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {body}\n\n".encode())
            self.wfile.flush()
        return None

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            self.note(event="client went away")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_close(self):
        super().server_close()
        self.RequestHandlerClass.close_log()


def serve(port: int = 0, log: str | None = None) -> ThreadingHTTPServer:
    """Bound server; call .serve_forever().  Its port is .server_address[1]."""
    log_file = open(log, "a", buffering=1) if log else None  # noqa: SIM115 - closed by server_close
    handler = type("H", (Handler,), {"log_file": log_file})
    return Server(("127.0.0.1", port), handler)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--port", type=int, default=0)
    ap.add_argument("--port-file")
    ap.add_argument("--log")
    args = ap.parse_args()
    server = serve(args.port, args.log)
    port = server.server_address[1]
    if args.port_file:
        with open(args.port_file, "w") as f:
            f.write(f"{port}\n")
    print(port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
