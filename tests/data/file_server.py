"""A small HTTP server that knows ranges, and misbehaves when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Serves ``files`` by path.

    Attributes:
        files: Content by path.
        faults: By path, what the next requests meet, first first: ``("cut", n)`` sends n bytes of
            the answer and hangs up, ``("status", code)`` answers with a code, ``("body", bytes)``
            sends another content, ``("shift", n)`` continues n bytes too late.
        ranges: Whether ranges are known.
        seen: The requests, as (path, start of the range or None).
    """

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.faults: dict[str, list[tuple[str, int | bytes]]] = {}
        self.ranges = True
        self.lengths = True
        self.seen: list[tuple[str, int | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else None
        self.server.seen.append((self.path, start))
        faults = self.server.faults.get(self.path, [])
        kind, value = faults.pop(0) if faults else ("", 0)
        content = value if isinstance(value, bytes) else self.server.files.get(self.path)
        if kind == "status" or content is None:
            self.send_error(int(value) if kind == "status" else 404)
            return
        begin = start if start is not None and self.server.ranges else 0
        if begin > len(content) or (begin == len(content) and begin):
            self.send_error(416)
            return
        if kind == "shift":
            begin += int(value)
        self._answer(content, begin, start is not None and self.server.ranges)
        rest = content[begin:]
        self.wfile.write(rest[: int(value)] if kind == "cut" else rest)

    def _answer(self, content: bytes, begin: int, partial: bool) -> None:
        self.send_response(206 if partial else 200)
        if partial:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if self.server.lengths:
            self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[FileServer]:
    """A server on a free port of this machine, for as long as the block lasts."""
    server = FileServer(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
