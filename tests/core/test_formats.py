"""What was written in an earlier format is read: snapshots here, logs in tests/same, workloads in tests/workload."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import pytest

from schedulers.core.errors import InvalidTransition
from schedulers.core.events import ContainerEnded, ContainerStarted, Event, Heartbeat, JobSubmitted, NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler
from tests.workload.samples_stored import WORKLOAD

#: What a scheduler of format 1 kept when it had heard of HEARD.
SNAPSHOT: Final = Path(__file__).parents[1] / "data" / "snapshot-1.msgpack"
HEARD: Final[tuple[Event, ...]] = (
    NodeAdded(0, Node(id="n1", capacity=(4000, 4096, 4))),
    *(JobSubmitted(entry.submit_ms, entry.job) for entry in WORKLOAD.jobs),
    Heartbeat(1000, "n1"),
)
LATER: Final[tuple[Event, ...]] = (
    *(ContainerStarted(1100 + number, number) for number in range(1, 17)),
    *(ContainerEnded(2000 + number, number, runtime_ms=900) for number in range(1, 17)),
    Heartbeat(3000, "n1"),
)


def test_a_snapshot_of_format_1_is_decided_on_as_by_one_who_has_heard_it_all() -> None:
    restored = Scheduler.restore(SNAPSHOT.read_bytes())
    other = Scheduler(
        SchedulerConfig(resources=WORKLOAD.resources, policy={"kind": "srpt"}, predictor={"kind": "slearn"})
    )
    for event in HEARD:
        other.handle(event)
    decided = [restored.handle(event) for event in LATER]
    assert decided == [other.handle(event) for event in LATER]
    assert any(decided)
    assert restored.snapshot() == other.snapshot()


def test_a_snapshot_of_a_later_format_is_refused() -> None:
    data = msgspec.msgpack.decode(SNAPSHOT.read_bytes())
    with pytest.raises(InvalidTransition, match="snapshot of format 9, this program reads up to 2"):
        Scheduler.restore(msgspec.msgpack.encode(data | {"format": 9}))
