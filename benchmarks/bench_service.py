"""What a bundle costs as a service, and from audio.

Claims:

1. ``/score`` takes at most 1.1 times the CPU time of the server that a bare FastAPI echo of the
   same body takes (alternating rounds of ``--requests`` from 50 keep-alive clients, median);
2. 1,000 requests from 50 clients lose none;
3. memory is flat: less than 2 MB more from 10,000 to ``--memory`` requests (100,000 by default);
4. ``verify`` of a recording on one core spends at least 90 % of its time in the front ends (left
   out where the weights are not at ``--data``, ``$SASV_SHARED`` or ``../shared``).

Run: ``python benchmarks/bench_service.py [--requests 2000] [--memory 100000] [--data DIR]``.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy import Verifier, write_bundle
from lightning_sasv.fusion import fit_systems
from lightning_sasv.trials import Scores

CLIENTS = 50
TICKS = os.sysconf("SC_CLK_TCK")
BODY = b'{"asv": 0.7, "cm": 6.0}'
REQUEST = (
    b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: " + str(len(BODY)).encode() + b"\r\n\r\n" + BODY
)
ECHO = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
class Pair(BaseModel):
    asv: float
    cm: float
app = FastAPI()
@app.post("/score")
async def echo(pair: Pair) -> Pair:
    return pair
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(command: list[str], port: int) -> subprocess.Popen[bytes]:
    """Start a server; it answers when this returns."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not answer")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def send(port: int, requests: int) -> int:
    """Requests of 50 clients over keep-alive connections; how many were answered with 200."""
    answered = [0] * CLIENTS

    def client(number: int) -> None:
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            for _ in range(requests // CLIENTS):
                connection.sendall(REQUEST % b"/score")
                found = b""
                while b"}" not in found:
                    part = connection.recv(65_536)
                    if not part:
                        return
                    found += part
                answered[number] += found.startswith(b"HTTP/1.1 200")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(answered)


def small_bundle(folder: Path) -> Path:
    """A bundle of M3d on simulated scores."""
    rng = np.random.default_rng(0)
    label = np.arange(900) % 3
    means = np.array([[0.45, -5.0], [0.7, 6.0], [0.1, 5.5]])
    asv, cm = (means[label] + rng.normal(size=(900, 2)) * [0.12, 3.0]).T
    dev = Scores(asv, cm, label)
    system = fit_systems(asv, cm, label, ["M3d"])["M3d"]
    return write_bundle(folder / "bundle", system, dev, PRESETS["a-dcf1"], name="M3d")


def bench_service(folder: Path, requests: int, most: int) -> list[bool]:
    """Claims 1 to 3."""
    ports = {"echo": free_port(), "score": free_port()}
    bundle = small_bundle(folder)
    serve = ["-m", "lightning_sasv.cli", "serve", "--bundle", str(bundle), "--port"]
    commands = {"echo": ["-c", ECHO], "score": serve}
    servers = {
        name: start([sys.executable, *words, str(ports[name])], ports[name])
        for name, words in commands.items()
    }
    try:
        for port in ports.values():
            send(port, requests)
        costs: dict[str, list[float]] = {"echo": [], "score": []}
        for _ in range(5):
            for name, port in ports.items():
                before = cpu_seconds(servers[name].pid)
                send(port, requests)
                costs[name].append((cpu_seconds(servers[name].pid) - before) / requests * 1e6)
        middle = {name: statistics.median(found) for name, found in costs.items()}
        ratio = middle["score"] / middle["echo"]
        print(f"CPU of the server a request: echo {middle['echo']:.0f} us, /score "
              f"{middle['score']:.0f} us, ratio {ratio:.2f} (at most 1.1)")  # fmt: skip
        lost = 1000 - send(ports["score"], 1000)
        print(f"1,000 requests from {CLIENTS} clients: {lost} lost")
        done, pid = 1000 + 6 * requests, servers["score"].pid
        while done < 10_000:
            done += send(ports["score"], 1000)
        first = memory_mb(pid)
        while done < most:
            done += send(ports["score"], 5000)
        more = memory_mb(pid) - first
        print(f"memory from 10,000 to {done:,} requests: {first:.1f} MB, {more:+.2f} MB")
        return [ratio <= 1.1, lost == 0, more < 2]
    finally:
        for server in servers.values():
            server.terminate()
            server.wait(20)


def bench_audio(folder: Path, data: Path) -> list[bool]:
    """Claim 4."""
    weights = data / "weights"
    recordings = sorted((data / "mini_la").rglob("*.flac"))[:4]
    if not (weights / "AASIST.pth").is_file() or not recordings:
        print("verify: left out, no weights or recordings")
        return []
    import torch

    from lightning_sasv.deploy.before_fusion import whole_way
    from lightning_sasv.models.heads import CMHead

    state = {f"head.{name}": value for name, value in CMHead().state_dict().items()}
    (folder / "run" / "checkpoints").mkdir(parents=True)
    torch.save({"state_dict": state}, folder / "run" / "checkpoints" / "best.ckpt")
    given = str(weights / "AASIST.pth"), str(weights / "ecapa")
    whole = whole_way(folder / "run", "M3d", *given, with_front_ends=True)
    rng, label = np.random.default_rng(0), np.arange(300) % 3
    asv, cm = rng.normal(size=(2, 300)) + label
    system = fit_systems(asv, cm, label, ["L3"])["L3"]
    dev, costs = Scores(asv, cm, label), PRESETS["equal"]
    parts = {"name": "L3", "more": lambda place, _: whole.write(place)}
    made = write_bundle(folder / "whole", system, dev, costs, **parts)
    started = time.perf_counter()
    verifier = Verifier(made)
    loaded = time.perf_counter() - started
    model, _, _ = verifier.enrol(recordings[:2])
    found = [verifier.verify(model, path).seconds for path in recordings[2:]]
    total = sum(sum(one.values()) for one in found)
    inside = sum(value for one in found for name, value in one.items() if "front end" in name)
    print(f"verify: {total / len(found):.2f} s a probe, {100 * inside / total:.1f} % in the front "
          f"ends (at least 90 %); loading {loaded:.2f} s")  # fmt: skip
    return [inside >= 0.9 * total]


def main() -> None:
    """Measure, print, and fail where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--memory", type=int, default=100_000)
    shared = os.environ.get("SASV_SHARED", Path(__file__).parents[2] / "shared")
    parser.add_argument("--data", type=Path, default=Path(shared) / "data")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        held = bench_service(folder, said.requests, said.memory)
        held += bench_audio(folder, said.data)
    print("all claims hold" if all(held) else "NOT all claims hold")
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
