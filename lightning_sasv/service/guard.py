"""What a request must be like before anything of its body is read: ASGI middleware.

It refuses by the header: token, host, size, and a full pool; and it counts bytes and time while
the body comes in. All this is before the parser of forms, which would read an upload of any size.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from lightning_sasv.service.gauges import Gauges

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/", "/health", "/docs", "/openapi.json")
"""Paths that tell nothing of anybody, and ask for no token."""

UPLOAD = "/verify"
_KNOWN = frozenset({*OPEN, UPLOAD, "/score", "/metrics", "/plane"})
_READ = frozenset({b"host", b"authorization", b"content-length"})
TEXT_BYTES = 1 << 20


@dataclass(eq=False, repr=False)  # its token is not shown
class Guard:
    """Stands before an application.

    Attributes:
        app: The application.
        gauges: Counts what is answered.
        upload_bytes: Bytes of recordings of one request.
        body_seconds: Seconds in which a body must have come in.
        waiting: Requests of recordings that are worked on or wait.
        token: What clients must show; ``None`` lets everybody in.
        hosts: Names that clients may call the service by where there is no token, so that no page
            of another site can speak to it.
        busy: Requests of recordings that are here now.
    """

    app: App
    gauges: Gauges
    upload_bytes: int
    body_seconds: float
    waiting: int
    token: str | None
    hosts: tuple[str, ...]
    busy: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, path, status, begun = time.perf_counter(), str(scope["path"]), 500, False

        async def answer(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
            await send(message)

        headers = {name: value for name, value in scope["headers"] if name in _READ}
        refused = self._refusal(path, headers)
        upload = path == UPLOAD and refused is None
        self.busy += upload
        try:
            if refused is not None:
                await _refuse(answer, *refused)
            else:
                most = self.upload_bytes if upload else TEXT_BYTES
                await self.app(scope, self._limited(receive, most), answer)
        except asyncio.CancelledError:  # the time that is left after SIGTERM is over
            if begun:
                raise
            await _refuse(answer, 503, "the service has ended; try again")
        finally:
            self.busy -= upload
            known = path if path in _KNOWN else "other"
            self.gauges.answered(known, status, time.perf_counter() - start)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Status and reason of a request that is not to be looked at."""
        if self.token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            if host not in self.hosts and host.rpartition(":")[0] not in self.hosts:
                return 421, "this service is not known by that name"
        elif path not in OPEN:
            shown = headers.get(b"authorization", b"")
            if not hmac.compare_digest(shown, f"Bearer {self.token}".encode()):
                return 401, "a token is needed: Authorization: Bearer TOKEN"
        most = self.upload_bytes if path == UPLOAD else TEXT_BYTES
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > most:
            return 413, f"at most {most} bytes are taken"
        if path == UPLOAD and self.busy >= self.waiting:
            return 503, "too many recordings are waiting; try again"
        return None

    def _limited(self, receive: Receive, most: int) -> Receive:
        """``receive`` that counts bytes and time until the body is there."""
        taken, deadline, whole = 0, time.monotonic() + self.body_seconds, False

        async def limited() -> Message:
            nonlocal taken, whole
            if whole:  # what comes now is the end of the connection
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the body came too slowly", _CLOSE) from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if taken > most:
                raise HTTPException(413, f"at most {most} bytes are taken", _CLOSE)
            return message

        return limited


_CLOSE = {"Connection": "close"}


async def _refuse(send: Send, status: int, reason: str) -> None:
    """Answer without a look at the body; the connection cannot be used again."""
    body = json.dumps({"detail": reason}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    headers |= {"connection": "close"} | ({"retry-after": "2"} if status == 503 else {})
    headers |= {"www-authenticate": "Bearer"} if status == 401 else {}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
