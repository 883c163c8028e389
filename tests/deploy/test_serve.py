"""The service: what it answers, what it refuses and when, and how it ends."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy import Verifier, load, write_bundle
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.trials import Scores
from tests.deploy.conftest import Place
from tests.deploy.recordings import write_voice
from tests.helpers import failure_of

Capture = pytest.CaptureFixture[str]
LIMIT = 1_000_000


class Service:
    """A service in a process of its own; what it says goes to a file, for a pipe would fill."""

    def __init__(self, place: Place, folder: Path, *words: str, token: str = "") -> None:
        self.log = folder / "log.txt"
        command = [sys.executable, "-m", "lightning_sasv.cli", "serve", "--port", "0"]
        command += ["--bundle", str(place.bundle), "--speakers", str(folder / "speakers")]
        limits = ["--upload_mb", "1", "--body_seconds", "1.5", "--workers", "1", "--queue", "1"]
        environment = os.environ | {"LIGHTNING_SASV_TOKEN": token}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *limits, *words], stdout=log, stderr=log, env=environment
            )
        self.port = self._wait()

    def _wait(self) -> int:
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            found = self.log.read_text().partition("http://")[2].partition(" ")[0]
            if found:
                return int(found.rpartition(":")[2])
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, dict):
            body, given = json.dumps(body), given | {"Content-Type": "application/json"}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        content = answer.read()
        kind = answer.getheader("Content-Type", "")
        found = json.loads(content) if "json" in kind else content.decode()
        connection.close()
        return answer.status, found, {k.lower(): v for k, v in answer.getheaders()}

    def verify(self, **parts: Any) -> tuple[int, Any, dict[str, str]]:
        body, kind = multipart(parts)
        return self.ask("POST", "/verify", body, Content_Type=kind)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def multipart(parts: dict[str, Any]) -> tuple[bytes, str]:
    """A form: bytes are files, a text is a field, lists are several of a name."""
    lines = []
    for name, values in parts.items():
        for value in values if isinstance(values, list) else [values]:
            file = '; filename="secret name.flac"' if isinstance(value, bytes) else ""
            content = value if isinstance(value, bytes) else value.encode()
            head = f'--XX\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
            lines += [head.encode(), content, b"\r\n"]
    return b"".join([*lines, b"--XX--\r\n"]), "multipart/form-data; boundary=XX"


@pytest.fixture(scope="module")
def service(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    words = ["enrol", place["a"], "--bundle", place.bundle, "--name", "anna", "--quiet"]
    main([str(word) for word in (*words, "--speakers", folder / "speakers")])
    running = Service(place, folder)
    yield running
    if running.process.poll() is None:
        running.stop()


def recording(samples: np.ndarray) -> bytes:
    content = io.BytesIO()
    soundfile.write(content, samples, 16_000, format="FLAC")
    return content.getvalue()


def test_scores_are_decided_as_by_the_scorer(service: Service, place: Place) -> None:
    for asv, cm in ((0.7, 6.0), (0.1, 6.0), (0, -9)):
        status, found, _ = service.ask("POST", "/score", {"asv": asv, "cm": cm, "reason": True})
        said = load(place.bundle)(float(asv), float(cm))
        assert status == 200
        assert found["decision"] == said.decision
        for name in ("score", "asv_llr", "cm_llr", "margin", "reason"):
            assert found[name] == getattr(said, name)
    assert "reason" not in service.ask("POST", "/score", {"asv": 0.7, "cm": 6.0})[1]
    kind = "Application/JSON; charset=utf-8"
    assert service.ask("POST", "/score", '{"asv": 0.7, "cm": 6}', Content_Type=kind)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        '{"asv": NaN, "cm": 1}',
        '{"asv": 1e400, "cm": 1}',
        '{"asv": -Infinity, "cm": 1}',
        '{"asv": "0.5", "cm": 1}',
        '{"asv": true, "cm": 1}',
        '{"asv": 0.5}',
        '{"asv": 0.5, "cm": 1, "cn": 2}',
        "[1, 2]",
        "not json",
        "",
    ],
)
def test_what_is_no_score_is_422(body: str, service: Service) -> None:
    status, found, _ = service.ask("POST", "/score", body, Content_Type="application/json")
    assert status == 422
    assert found["detail"]
    assert (
        service.ask("POST", "/score", '{"asv": 0.5, "cm": 1}', Content_Type="text/plain")[0] == 422
    )


def test_recordings_are_decided_as_by_verify(service: Service, place: Place) -> None:
    sounds = {name: place[name].read_bytes() for name in "abx"}
    status, found, _ = service.verify(enrol=[sounds["a"], sounds["b"]], probe=sounds["x"])
    verifier = Verifier(place.bundle)
    model, _, _ = verifier.enrol([place["a"], place["b"]])
    wanted = verifier.verify(model, place["x"])
    assert status == 200
    assert found["decision"] == wanted.decision
    assert found["asv_score"] == pytest.approx(wanted.asv_score, abs=1e-6)
    assert found["cm_score"] == pytest.approx(wanted.cm_score, abs=1e-5)
    status, found, _ = service.verify(name="anna", probe=sounds["a"])
    assert status == 200
    assert found["asv_score"] == pytest.approx(1, abs=1e-6)
    for name in ("otto", "hanna", "../anna"):  # nobody is told who else is enrolled, or where
        status, found, _ = service.verify(name=name, probe=sounds["a"])
        assert (status, found["detail"]) == (422, "nobody is enrolled under this name")


def test_bad_recordings_are_422_in_our_words(service: Service, place: Place, hours: Path) -> None:
    good = place["a"].read_bytes()
    assert hours.stat().st_size < LIMIT
    for probe, words in (
        (b"this is no audio", "cannot be read as audio"),
        (b"", "cannot be read as audio"),
        (recording(np.zeros(16_000)), "nothing but silence"),
        (recording(np.full(3_200, 0.1)), "0.20 s of audio are too little"),
        (hours.read_bytes(), "180 minutes of audio are too much"),
    ):
        status, found, _ = service.verify(enrol=good, probe=probe)
        assert status == 422
        assert words in found["detail"]
        assert "0x" not in found["detail"]
    for parts in ({"probe": good}, {"enrol": good}, {"probe": [good, good], "enrol": good}):
        status, found, _ = service.verify(**parts)
        assert (status, "send one recording as probe" in found["detail"]) == (422, True)
    kind = "multipart/form-data; boundary=XX"
    assert service.ask("POST", "/verify", b"--XX\r\nnonsense", Content_Type=kind)[0] == 422


def answer_to(service: Service, head: str, *parts: bytes) -> tuple[bytes, int]:
    """What comes back on a bare connection, and how many bytes could be sent before."""
    with service.connect() as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        sent = 0
        try:
            for part in parts:
                connection.sendall(part)
                sent += len(part)
        except OSError:
            pass  # it was closed meanwhile
        found = b""
        try:
            while part := connection.recv(65_536):
                found += part
                if b'"}' in found:
                    break
        except OSError:
            pass
        return found, sent


HEAD = "POST /verify HTTP/1.1\nHost: 127.0.0.1\nContent-Type: multipart/form-data; boundary=XX\n"


def test_too_large_is_413_before_the_body_is_read(service: Service) -> None:
    for more in ("", "Expect: 100-continue\n"):
        found, _ = answer_to(service, f"{HEAD}Content-Length: 100000000\n{more}\n")
        assert found.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in found.lower()
    start = multipart({"probe": b""})[0].partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    chunks = [b"%x\r\n" % len(part) + part + b"\r\n" for part in (start, bytes(65_536))]
    parts = [chunks[0], *[chunks[1]] * 800]
    found, sent = answer_to(service, f"{HEAD}Transfer-Encoding: chunked\n\n", *parts)
    assert sent < 20 * LIMIT  # of 52; what the sockets hold
    assert not found or found.startswith(b"HTTP/1.1 413")  # or the connection was reset
    scores = HEAD.replace("/verify", "/score") + "Content-Length: 2000000\n\n"
    assert answer_to(service, scores)[0].startswith(b"HTTP/1.1 413")


def test_a_slow_client_is_408_and_one_that_hangs_up_is_forgotten(service: Service) -> None:
    for path in ("/verify", "/score"):
        begin = time.monotonic()
        kind = "multipart/form-data; boundary=XX" if path == "/verify" else "application/json"
        head = f"POST {path} HTTP/1.1\nHost: 127.0.0.1\nContent-Type: {kind}\n"
        found, _ = answer_to(service, f"{head}Content-Length: 1000\n\n", b"--XX\r\n")
        assert found.startswith(b"HTTP/1.1 408"), path
        assert time.monotonic() - begin < 8
    with service.connect() as connection:
        connection.sendall((HEAD + "Content-Length: 1000\n\n").replace("\n", "\r\n").encode())
        connection.sendall(b"--XX\r\n")
    assert service.ask("GET", "/health")[0] == 200
    assert "Traceback" not in service.log.read_text()


def test_a_full_pool_says_when_to_try_again(service: Service, place: Place) -> None:
    sound = place["x"].read_bytes()
    found: list[tuple[int, dict[str, str]]] = []

    def ask() -> None:
        status, _, headers = service.verify(enrol=[sound] * 3, probe=sound)
        found.append((status, headers))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [status for status, _ in found]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 2
    assert all("retry-after" in headers for status, headers in found if status == 503)
    assert service.verify(enrol=sound, probe=sound)[0] == 200


def test_pages_and_numbers(service: Service) -> None:
    status, health, _ = service.ask("GET", "/health")
    assert (status, health["status"], health["recordings"]) == (200, "ok", True)
    paths = service.ask("GET", "/openapi.json")[1]["paths"]
    assert {"/score", "/verify", "/health", "/metrics"} <= paths.keys()
    for page in ("/", "/docs"):
        status, text, _ = service.ask("GET", page)
        assert status == 200
        assert "https://" not in text  # nothing from elsewhere
    for _ in range(60):
        service.ask("POST", "/score", {"asv": 0.7, "cm": 6.0})
    text = service.ask("GET", "/metrics")[1]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert float(values['sasv_decisions_total{path="/score",decision="accept"}']) >= 60
    assert 'sasv_request_seconds_bucket{path="/score",le="+Inf"}' in values
    assert 'sasv_score{name="asv_score",quantile="0.5"}' in values
    assert 0 <= float(values["sasv_share_outside"]) <= 1
    priors = [float(values[f'sasv_prior{{class="{c}"}}']) for c in ("spoof", "target", "nontarget")]
    assert sum(priors) == pytest.approx(1, abs=1e-5)
    assert service.ask("GET", "/nothing")[0] == 404
    log = service.log.read_text()
    assert len(log.splitlines()) == 1  # where it listens, and nothing of anybody
    assert "anna" not in log


def test_no_page_of_another_site_can_ask(service: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    connection.request("GET", "/health", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 421


def test_sigterm_lets_begun_requests_end_and_no_half_body_stops_it(
    place: Place, tmp_path: Path
) -> None:
    token = "s3cret"
    words = ["--grace", "5", "--body_seconds", "30"]
    service = Service(place, tmp_path, *words, token=f"{token}\n")  # as a file of it ends
    assert service.ask("POST", "/score", {"asv": 0.7, "cm": 6.0})[0] == 401
    assert service.ask("GET", "/metrics", Authorization="Bearer wrong")[0] == 401
    assert service.ask("GET", "/health")[0] == 200
    assert service.ask("GET", "/metrics", Authorization=f"Bearer {token}")[0] == 200
    sound, found = place["x"].read_bytes(), list[int]()
    body, kind = multipart({"enrol": [sound] * 5, "probe": sound})

    def ask() -> None:
        headers = {"Content_Type": kind, "Authorization": f"Bearer {token}"}
        found.append(service.ask("POST", "/verify", body, **headers)[0])

    half = service.connect()
    head = f"{HEAD}Authorization: Bearer {token}\nContent-Length: 1000\n\n"
    half.sendall(head.replace("\n", "\r\n").encode() + b"--XX\r\n")
    thread = threading.Thread(target=ask)
    thread.start()
    clients = [begun_score(service, token) for _ in range(50)]
    begin = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    for client in clients:
        client.sendall(SCORES)
    answers = [client.recv(100) for client in clients]
    assert service.process.wait(20) == 0
    assert time.monotonic() - begin < 15, "it waits for the half body no longer than its grace"
    with pytest.raises(ConnectionRefusedError):
        service.connect()
    thread.join()
    assert half.recv(100).startswith(b"HTTP/1.1 503")
    for client in (*clients, half):
        client.close()
    assert found == [200]
    assert {answer[:15] for answer in answers} == {b"HTTP/1.1 200 OK"}
    assert "Traceback" not in service.log.read_text()


SCORES = b'{"asv": 0.7, "cm": 6.0}'


def begun_score(service: Service, token: str) -> socket.socket:
    """A request that the service has begun: it asked for the body, which is not sent yet."""
    client = service.connect()
    lines = ["POST /score HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(SCORES)}"]
    client.sendall("\r\n".join([*lines, "Expect: 100-continue", "", ""]).encode())
    assert client.recv(100).startswith(b"HTTP/1.1 100")
    return client


def test_a_port_in_use_is_named_before_anything_is_loaded(capsys: Capture) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        message = failure_of(capsys, "serve", "--bundle", "nowhere", "--port", port)
    assert port in message
    assert "Choose another --port" in message
    assert "no bundle at nowhere" in failure_of(capsys, "serve", "--bundle=nowhere", "--port=0")
    message = failure_of(capsys, "serve", "--bundle", "nowhere", "--port", "99999")
    assert message.endswith("port must be 0-65535; choose another --host or --port\n")


def test_others_may_not_listen_in_without_a_token(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIGHTNING_SASV_TOKEN", raising=False)
    for host in ("0.0.0.0", "192.168.1.5", "::"):
        words = ["serve", "--bundle", "nowhere", "--host", host]
        assert "LIGHTNING_SASV_TOKEN" in failure_of(capsys, *words)
    monkeypatch.setenv("LIGHTNING_SASV_TOKEN", "x")
    message = failure_of(capsys, "serve", "--bundle", "nowhere", "--host", "ü" * 99)
    assert "choose another --host or --port" in message


LINES = {  # what is asked, and a part of the answer
    '{"asv": 0.7, "cm": 6.0, "id": 7}': '"id": 7, "decision": "accept"',
    '{"asv": NaN, "cm": 6.0, "id": 8}': '"id": 8, "error": "asv must be finite',
    "nonsense": "this line is not valid JSON",
    '{"asv": 0.7, "id": "x"}': '"id": "x", "error": "give asv and cm',
    "[]": "must be an object",
    '{"asv": true, "cm": 1}': "asv must be a number, got true",
    '{"asv": [0.7, 0.1], "cm": [6.0, 1.0]}': "asv must be a number, got [0.7, 0.1]",
    '{"asv": null, "cm": 1}': "asv must be a number, got null",
    '{"asv": 1%s, "cm": 1}' % ("0" * 400): "asv is too large",
    "[" * 100_000: "levels",
    "1" * 2_000_002: "bytes in one line",
    '{"enrol": [1], "probe": "x.flac"}': "give the file of a probe",
    '{"probe": "x.flac"}': "give the file of a probe",
    '{"name": "../x", "probe": "x.flac"}': "no name of a speaker",
    '{"asv": 0.1, "cm": -6}': '"decision": "reject"',
}


def test_lines_of_json(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    sound, slow = str(place["a"]), str(write_voice(place.folder / "slow.wav", rate=8_000))
    recordings = [{"enrol": [slow], "probe": sound}, {"enrol": sound, "probe": "nowhere.wav"}]
    asked = [*LINES, "", *map(json.dumps, recordings)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(asked)))
    capsys.readouterr()
    main(["serve", "--bundle", str(place.bundle), "--stdin"])
    *said, heard, missing = capsys.readouterr().out.splitlines()
    for answer, (line, part) in zip(said, LINES.items(), strict=True):
        assert part in json.dumps(json.loads(answer)), line[:80]
    assert json.loads(heard)["notes"][0].startswith(f"{slow}: resampled from 8000 Hz")
    assert "no such file" in json.loads(missing)["error"]


@pytest.mark.parametrize("name", ["workers", "connections", "grace", "upload_mb", "body_seconds"])
def test_limits_that_allow_nothing_are_refused(name: str, capsys: Capture) -> None:
    words = ["serve", "--bundle", "nowhere", f"--{name}", "0"]
    assert f"--{name} must be above 0" in failure_of(capsys, *words)


def test_a_bundle_of_scores_says_so_to_recordings(
    systems: dict[str, FusionSystem], dev: Scores, place: Place, tmp_path: Path
) -> None:
    made = write_bundle(tmp_path / "b", systems["L3"], dev, PRESETS["equal"], name="L3")
    service = Service(place._replace(bundle=made), tmp_path, "--host", "::1")
    assert service.stop() == 0
    assert f"http://[::1]:{service.port} (the form)" in service.log.read_text()
    service = Service(place._replace(bundle=made), tmp_path, "--connections", "4")
    silent = [service.connect() for _ in range(6)]  # nothing else ends them
    assert service.ask("GET", "/health")[0] == 503
    for connection in silent:
        connection.close()
    status, found, _ = service.verify(enrol=b"any", probe=b"thing")
    assert (status, "takes scores, not audio" in found["detail"]) == (422, True)
    assert service.ask("GET", "/health")[1]["recordings"] is False
    service.stop()
