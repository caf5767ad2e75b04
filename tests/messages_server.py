"""The Messages API on loopback, as far as it matters here: real HTTP, driven by a script, its answers real ones.

A script is a function of the request that returns what is to happen. Every answer that counts as one is held against
the SDK's own types, so that no test passes on a message that the API could not have sent.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anthropic.types import Message, MessageTokensCount

KEY = "sk-test-0123456789-never-to-be-seen"
"""The key that tests use; it must turn up nowhere."""


@dataclass(frozen=True)
class Act:
    """What the server does with one request."""

    status: int = 200
    content: tuple[dict[str, Any], ...] = ()
    stop_reason: str = "end_turn"
    usage: dict[str, int] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    cut: int | None = None  # close the connection after so many bytes of the body
    body: str | None = None  # this instead of a message


Request = dict[str, Any]
Script = Callable[[Request], Act]


def says(value: Any, **more: Any) -> Act:
    """Answer with an object, as JSON, or with a text."""
    text = value if isinstance(value, str) else json.dumps(value)
    return Act(content=({"type": "text", "text": text},), **more)


def calls(*tools: tuple[str, Any], **more: Any) -> Act:
    """Call tools."""
    blocks = tuple(
        {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments}
        for at, (name, arguments) in enumerate(tools)
    )
    return Act(content=blocks, stop_reason="tool_use", **more)


def fails(status: int, **headers: str) -> Act:
    """Turn the request down."""
    kinds = {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error", 401: "authentication_error"}
    error = {"type": kinds.get(status, "invalid_request_error"), "message": f"scripted {status}"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Act(status=status, body=json.dumps({"type": "error", "error": error}), headers=named)


def in_turn(*acts: Act) -> Script:
    """Do one after another; the last again and again."""
    left = list(acts)
    lock = threading.Lock()

    def script(_: Request) -> Act:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return script


class MessagesServer:
    """The server while it runs: what it was asked, and what it is to answer."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.script: Script = lambda _: fails(500)
        self.requests: list[Request] = []
        self.counts: list[Request] = []
        self.keys: set[str] = set()
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def usage(self, request: Request, content: tuple[dict[str, Any], ...]) -> dict[str, int]:
        """Return what the API would say a call used: a token for four characters, prefixes cached once seen."""
        whole, cached = tokens_of(request), 0
        with self._lock:
            for prefix in _prefixes(request):
                if prefix in self._seen:
                    cached = self._seen[prefix]
            written = 0
            for prefix in _prefixes(request):
                size = len(prefix) // 4
                if size >= MIN_CACHED and prefix not in self._seen:
                    self._seen[prefix] = size
                    written = max(written, size - cached)
        return {
            "input_tokens": whole - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": max(len(json.dumps(content)) // 4, 1),
        }


MIN_CACHED = 1024
"""Shorter prompts are not cached."""


def tokens_of(request: Request) -> int:
    """Return how long a prompt is, by the server's own measure."""
    return len(json.dumps([request.get(part) for part in ("tools", "system", "messages")])) // 4


def _prefixes(request: Request) -> Iterator[str]:
    """Yield what stands before each mark of the cache, shortest first."""
    so_far = json.dumps(request.get("tools")) if request.get("tools") else ""
    blocks = [*request.get("system", [])]
    for message in request["messages"]:
        content = message["content"]
        blocks += content if isinstance(content, list) else [{"type": "text", "text": content}]
    for block in blocks:
        so_far += json.dumps({name: value for name, value in block.items() if name != "cache_control"})
        if "cache_control" in block:
            yield so_far


@contextmanager
def messages_server() -> Iterator[MessagesServer]:
    """Run a server on a free port of loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.keys.add(
                self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
            )
            if self.path.split("?")[0] == "/v1/messages/count_tokens":
                server.counts.append(request)
                counted = MessageTokensCount(input_tokens=tokens_of(request))
                self._send(Act(), counted.model_dump_json())
                return
            server.requests.append(request)
            act = server.script(request)
            time.sleep(act.delay)
            self._send(act, act.body if act.body is not None else message(request, act))

        def _send(self, act: Act, body: str) -> None:
            content = body.encode()
            try:
                self.send_response(act.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                for name, value in act.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content if act.cut is None else content[: act.cut])
                self.wfile.flush()
            except BrokenPipeError:  # whoever asked has given up, as some tests want
                self.close_connection = True
            if act.cut is not None:
                self.close_connection = True

    def message(request: Request, act: Act) -> str:
        usage = act.usage or server.usage(request, act.content)
        whole = {
            "id": f"msg_{len(server.requests)}", "type": "message", "role": "assistant", "model": request["model"],
            "content": list(act.content), "stop_reason": act.stop_reason, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        Message.model_validate(whole)
        return json.dumps(whole)

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    server = MessagesServer(listener.server_address[1])
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
