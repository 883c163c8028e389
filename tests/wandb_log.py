"""Reading an offline W&B run back from its transaction log."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wandb

BLOCK, HEADER = 32 * 1024, 7


@dataclass
class OfflineRun:
    """What a run logged."""

    id: str = ""
    entity: str = ""
    notes: str = ""
    tags: list[str] = field(default_factory=list)
    group: str = ""
    name: str = ""
    project: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ended: bool = False

    def last(self, key: str) -> Any:
        """The value of ``key`` that was logged last."""
        return [row[key] for row in self.history if key in row][-1]


def _records(content: bytes) -> Iterator[bytes]:
    """Records of a LevelDB log: blocks of chunks (checksum 4, length 2, kind 1, data)."""
    place, record = HEADER, b""
    while place + HEADER <= len(content):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        record += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield record
            record = b""


def read_offline_run(folder: Path) -> OfflineRun:
    """The one offline run below ``folder``."""
    (run,) = read_offline_runs(folder)
    return run


def read_offline_runs(folder: Path) -> list[OfflineRun]:
    """The offline runs below ``folder``, in the order of their time."""
    return [_read_run(path) for path in sorted(folder.rglob("run-*.wandb"))]


def read_ended_runs(folder: Path, seconds: float = 20.0) -> list[OfflineRun]:
    """The same of runs that this process has ended: W&B writes the rest of them by and by."""
    wandb.finish()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        runs = read_offline_runs(folder)
        if runs and all(run.ended for run in runs):
            return runs
        time.sleep(0.05)
    raise AssertionError("W&B has not written the end of a run")


def _read_run(path: Path) -> OfflineRun:
    from wandb.proto.wandb_internal_pb2 import Record

    run = OfflineRun()
    for raw in _records(path.read_bytes()):
        record = Record()
        record.ParseFromString(raw)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.group, run.name = record.run.run_group, record.run.display_name
            run.project, run.id = record.run.project, record.run.run_id
            run.entity = record.run.entity or run.entity
            run.notes = record.run.notes or run.notes
            run.tags += record.run.tags
            run.config |= {i.key: json.loads(i.value_json) for i in record.run.config.update}
        elif kind == "config":
            for item in record.config.update:
                run.config[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
        elif kind == "history":
            items = record.history.item
            row = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in items}
            run.history.append(row)
        elif kind == "exit":
            run.ended = True
        elif kind == "files":
            run.files += [file.path for file in record.files.files]
    return run
