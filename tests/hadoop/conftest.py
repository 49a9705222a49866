"""Small SLS folders, written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.hadoop.settings import CAPACITY, FAIR

Properties = Mapping[str, str]
MakeFolder = Callable[..., Path]


def xml(properties: Properties) -> str:
    """A configuration, one property a line from line 2 on."""
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


def task(ms: int = 5000, **more: Any) -> dict[str, Any]:
    return {
        "container.host": "/r/node1",
        "container.duration.ms": ms,
        **{k.replace("__", "."): v for k, v in more.items()},
    }


def job(name: str = "j", start: int = 0, queue: str = "a", tasks: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    return {
        "job.id": name,
        "job.start.ms": start,
        "job.queue.name": queue,
        "job.tasks": list(tasks) or [task()],
        **{k.replace("__", "."): v for k, v in more.items()},
    }


TWO_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "a,b",
    "yarn.scheduler.capacity.root.a.capacity": "40",
    "yarn.scheduler.capacity.root.b.capacity": "60",
}
NODES = {"rack": "r", "nodes": [{"node": "node1"}, {"node": "node2"}]}


@pytest.fixture
def folder(tmp_path: Path) -> MakeFolder:
    """Writes an SLS folder: CapacityScheduler with two queues, two nodes and one job unless told otherwise."""

    def _folder(
        jobs: Sequence[Any] | str | None = None,
        *,
        nodes: Sequence[Any] | None = (NODES,),
        sls: Properties | None = None,
        capacity: Properties | None = None,
        fair: str | None = None,
        name: str = "sls",
    ) -> Path:
        root = tmp_path / name
        (root / "conf").mkdir(parents=True)
        text = jobs if isinstance(jobs, str) else "\n".join(json.dumps(j) for j in (jobs or [job()]))
        (root / "jobs.json").write_text(text)
        if nodes is not None:
            (root / "nodes.json").write_text("\n".join(json.dumps(n) for n in nodes))
        scheduler = CAPACITY if fair is None else FAIR
        runner = {"yarn.resourcemanager.scheduler.class": scheduler, **(sls or {})}
        (root / "conf" / "sls-runner.xml").write_text(xml(runner))
        if fair is None:
            (root / "conf" / "capacity-scheduler.xml").write_text(xml({**TWO_QUEUES, **(capacity or {})}))
        else:
            (root / "conf" / "fair-scheduler.xml").write_text(fair)
        return root

    return _folder
