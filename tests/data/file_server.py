"""A small HTTP server that misbehaves when it is told to."""

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
            the answer and hangs up, ``("status", code)`` answers with a code.
        lengths: Whether answers say how long they are.
        seen: The paths that were asked for.
    """

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.faults: dict[str, list[tuple[str, int]]] = {}
        self.lengths = True
        self.seen: list[str] = []

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
        self.server.seen.append(self.path)
        faults = self.server.faults.get(self.path, [])
        kind, value = faults.pop(0) if faults else ("", 0)
        content = self.server.files.get(self.path)
        if kind == "status" or content is None:
            self.send_error(value if kind == "status" else 404)
            return
        self.send_response(200)
        if self.server.lengths:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:value] if kind == "cut" else content)


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
