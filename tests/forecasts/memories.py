"""Memories of a brain as ConfigMaps."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

import msgspec

from schedulers.core.events import NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import FORMAT, LABEL, SNAPSHOT, BrainSnapshot, Index


def config_maps(name: str, data: bytes, chunk: int = 5000) -> list[dict[str, Any]]:
    packed = zlib.compress(data)
    parts = {f"{name}-1-{number}": packed[at : at + chunk] for number, at in enumerate(range(0, len(packed), chunk))}
    index = Index(
        format=FORMAT,
        generation=1,
        created="",
        transitions=0,
        chunks=tuple(parts),
        bytes=len(packed),
        sha256=hashlib.sha256(packed).hexdigest(),
    )
    contents: dict[str, dict[str, Any]] = {name: {"data": {"index": msgspec.json.encode(index).decode()}}}
    contents |= {part: {"binaryData": {"data": base64.b64encode(raw).decode()}} for part, raw in parts.items()}
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    return [{**head, "metadata": {"name": key, "labels": {LABEL: name}}, **body} for key, body in contents.items()]


def of_one_node() -> list[dict[str, Any]]:
    """The memory of a cluster of one node without jobs."""
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="cycle"))
    scheduler.handle(NodeAdded(1, Node(id="n1", capacity=(2000, 4096))))
    return config_maps(SNAPSHOT, msgspec.msgpack.encode(BrainSnapshot(scheduler.snapshot(), {})))
