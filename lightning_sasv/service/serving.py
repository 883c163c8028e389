"""``lightning serve``: a bundle that answers over HTTP, or line by line."""

from __future__ import annotations

import errno
import io
import ipaddress
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from lightning_sasv import signals
from lightning_sasv.deploy import Scorer, Verifier, load
from lightning_sasv.deploy.before_fusion import SIMULATED
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.deploy.verifier import SCORES_ALONE, holds_graphs
from lightning_sasv.deploy.verifying import SPEAKERS
from lightning_sasv.errors import InputError
from lightning_sasv.files import finite
from lightning_sasv.frontends.corpus import Network
from lightning_sasv.limits import LINE_BYTES, parse_json
from lightning_sasv.program import cores

TOKEN = "LIGHTNING_SASV_TOKEN"
"""Variable with the token that clients must show."""

GRACE = 30
"""Seconds in which requests that are being worked on may end after a signal."""


def serve(
    *,
    bundle: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    speakers: str = SPEAKERS,
    stdin: bool = False,
    workers: int | None = None,
    queue: int = 8,
    upload_mb: float = 20.0,
    body_seconds: float = 20.0,
    connections: int = 1000,
    grace: int = GRACE,
    cm: Network = None,
    asv: Network = None,
    fingerprint: str | None = None,
    tell: Callable[[list[str]], None] = lambda notes: None,
) -> None:
    """Answer over HTTP: /score, /verify, /health, /metrics, /docs, and a form at /.

    Recordings are not kept, and no line of a log has a name or a score. Where the variable
    LIGHTNING_SASV_TOKEN is set, clients must send it (Authorization: Bearer TOKEN); without it the
    service listens to this machine alone. Slow headers and idle connections cannot be seen from
    here: put a proxy in front of a service that others can reach.

    Args:
        bundle: Folder that `lightning export` wrote.
        host: Address to listen at.
        port: Port; 0 takes a free one.
        speakers: Folder of speaker models that `lightning enrol` kept.
        stdin: Read JSON lines from standard input instead, {"asv": ..., "cm": ...} or {"enrol":
            [FILE, ...], "probe": FILE} or {"name": ..., "probe": FILE}; write one for each.
        workers: Recordings that are worked on at the same time; by default one for each CPU.
        queue: Requests with recordings that may wait; to more it answers 503.
        upload_mb: Megabytes of recordings that one request may bring.
        body_seconds: Seconds in which a request must have come in.
        connections: Open connections and running requests; beyond it answers 503.
        grace: Seconds in which requests that were begun may end after SIGTERM.
        cm: Where the bundle has no graphs: weights of AASIST, or {class_path: ..., init_args: ...}.
        asv: Weights of ECAPA, likewise.
        fingerprint: SHA-256 that the bundle must have.
        tell: Told where it listens.
    """
    if queue < 0:
        raise InputError(f"--queue must be at least 0, got {queue}")
    above = {"upload_mb": upload_mb, "body_seconds": body_seconds, "grace": grace}
    above |= {"connections": connections, "workers": 1 if workers is None else workers}
    for name, value in above.items():
        if value <= 0:
            raise InputError(f"--{name} must be above 0, got {value}")
    if stdin:
        scorer, verifier = _load(bundle, cm, asv, fingerprint)
        LineAnswers(scorer, verifier, SpeakerModels(speakers)).run(sys.stdin, sys.stdout)
        return
    token = os.environ.get(TOKEN, "").strip() or None  # a header has no line break
    if token is None and not _is_local(host):
        raise InputError(
            f"--host {host} can be reached by others: set the variable {TOKEN} to a secret that "
            "clients must show, or listen at 127.0.0.1"
        )
    with _bound(host, port) as listener:  # before anything is loaded
        _check_packages()
        scorer, verifier = _load(bundle, cm, asv, fingerprint)
        from lightning_sasv.service.app import create_app
        from lightning_sasv.service.gauges import Gauges
        from lightning_sasv.service.guard import Guard

        number, gauges = workers or cores(), Gauges()
        names = ("127.0.0.1", "localhost", "[::1]", host)
        limits = int(upload_mb * 1e6), body_seconds, number + queue, token, names
        with ThreadPoolExecutor(number, "verify") as pool:
            app = create_app(scorer, verifier, Path(bundle), speakers, pool, gauges)
            where = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
            note = f"{scorer.metadata['system']} at {where} (the form), {where}/docs; Ctrl-C stops"
            simulated = [SIMULATED] if verifier is not None and scorer.system.simulated else []
            guarded = Guard(app, gauges, *limits)
            _run(guarded, listener, connections, grace, partial(tell, [*simulated, note]))


def _load(
    bundle: str, cm: Network, asv: Network, fingerprint: str | None
) -> tuple[Scorer, Verifier | None]:
    """The scorer of a bundle and, where it holds the way from recordings, that too."""
    scorer = load(bundle, fingerprint=fingerprint)
    known: Mapping[str, Any] = scorer.metadata.get("front_ends") or {}
    if "head" not in scorer.metadata or not (holds_graphs(known) or cm or asv):
        return scorer, None
    verifier = Verifier(bundle, cm, asv, fingerprint)
    return verifier.scorer, verifier


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, or a line that says why it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(2048)
        except (OSError, OverflowError, TypeError) as error:  # the last of no name of a host
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            advice = "is another service there? Choose another --port" if taken else ""
            raise InputError(
                f"cannot listen at {host}, port {port}: {reason}; "
                f"{advice or 'choose another --host or --port'}"
            ) from None
        yield listener


def _check_packages() -> None:
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"the service needs {error.name}, which cannot be imported; install it with: "
            "pip install 'lightning-sasv[serve]'"
        ) from None


def _run(
    app: Any, listener: socket.socket, connections: int, grace: int, begin: Callable[[], None]
) -> None:
    """Serve until a signal; what was begun is ended, and the command has done its work."""
    import uvicorn
    from starlette.formparsers import MultiPartParser

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            with signals.left_to(self.handle_exit):
                begin()  # from here on a signal is an orderly end
                yield

    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client is told
    MultiPartParser.spool_max_size = 1 << 40  # no recording is ever written to a disk
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        limit_concurrency=connections,
        timeout_graceful_shutdown=grace,
        server_header=False,
    )
    Server(config).run(sockets=[listener])


class LineAnswers:
    """Answers requests that are lines of JSON.

    Args:
        scorer: Decides on scores.
        verifier: Decides on recordings; ``None`` where the bundle takes scores alone.
        models: Kept models of speakers.
    """

    def __init__(self, scorer: Scorer, verifier: Verifier | None, models: SpeakerModels) -> None:
        self.scorer, self.verifier, self.models = scorer, verifier, models
        pair = scorer.system.columns.is_pair
        self.names = ("asv", "cm") if pair else scorer.columns

    def run(self, asked: TextIO, said: TextIO) -> None:
        """Answer what comes until it ends, each line as soon as it is there."""
        for answer in self.answers(_limited(asked)):
            said.write(f"{answer}\n")
            said.flush()

    def answers(self, lines: Iterable[str]) -> Iterator[str]:
        """A line for each that is not empty; a bad one is answered with an error.

        An ``id`` is given back, with an error too where the line could be read.
        """
        for line in lines:
            if not line.strip():
                continue
            named: dict[str, Any] = {}
            try:
                asked = _read(line)
                named = {"id": asked.pop("id")} if "id" in asked else {}
                said = self._recordings(asked) if "probe" in asked else self._scores(asked)
            except (InputError, OSError) as error:  # or no name that a file can have
                said = {"error": " ".join(str(error).split())[:1000]}
            yield json.dumps(finite(named | said))

    def _scores(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.keys() != {*self.names}:
            raise InputError(f"give {' and '.join(self.names)}, or a probe; got {[*asked][:9]}")
        values = {name: _number(name, asked[name]) for name in self.names}
        given = values.values() if self.scorer.system.columns.is_pair else [values]
        return self.scorer(*given).as_json(reason=True)

    def _recordings(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self.verifier is None:
            raise InputError(SCORES_ALONE)
        probe, files, name = (asked.get(key) for key in ("probe", "enrol", "name"))
        files = [files] if isinstance(files, str) else files or []
        texts = [probe, *(files if isinstance(files, list) else [None]), *([name] if name else [])]
        if not all(isinstance(one, str) for one in texts) or (not files) == (name is None):
            raise InputError("give the file of a probe, and enrol (files) or the name of a speaker")
        return self.verifier.decide(files, name, str(probe), self.models).as_json()


def _limited(stream: TextIO) -> Iterator[str]:
    """Lines of a stream; of one that is longer than any sound one its beginning, and no more."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")  # a bad byte is a bad line, not the end
    while line := stream.readline(LINE_BYTES.now + 1):
        rest = line
        while len(rest) > LINE_BYTES.now and not rest.endswith("\n"):
            rest = stream.readline(LINE_BYTES.now + 1)
        yield line


def _read(line: str) -> dict[str, Any]:
    LINE_BYTES.check("this line", len(line))
    found = parse_json(line, "this line")
    if not isinstance(found, dict):
        raise InputError("a line must be an object, {…}")
    return found


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise InputError(f"{name} must be a number, got {json.dumps(value)[:40]}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{name} is too large for a number") from None
