"""What was written in any earlier format is read: snapshots, logs and weights here, workloads in tests/workload.

Objects and files of an older brain: tests/kubernetes/test_old_brains.py; longer logs of format 1: tests/same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pytest

from rm_emulator.testing import replay
from schedulers.core.errors import InvalidTransition
from schedulers.core.log import READABLE
from schedulers.core.scheduler import Scheduler
from schedulers.learned.weights import unpack
from tests import stored

DATA: Final = Path(__file__).parents[1] / "data"


def snapshot(number: int) -> bytes:
    """What a scheduler of that format kept when it had heard of `stored.HEARD`."""
    return (DATA / f"snapshot-{number}.msgpack").read_bytes()


@pytest.mark.parametrize("number", READABLE)
def test_a_snapshot_of_any_format_is_decided_on_as_by_one_who_has_heard_it_all(number: int) -> None:
    restored, other = Scheduler.restore(snapshot(number)), stored.scheduler()
    decided = [restored.handle(event) for event in stored.LATER]
    assert decided == [other.handle(event) for event in stored.LATER]
    assert any(decided)
    assert restored.snapshot() == other.snapshot()


def test_a_snapshot_of_a_later_format_is_refused() -> None:
    data = msgspec.msgpack.decode(snapshot(1))
    with pytest.raises(InvalidTransition, match="snapshot of format 9, this program reads up to 2"):
        Scheduler.restore(msgspec.msgpack.encode(data | {"format": 9}))


def test_a_log_of_format_2_replays_to_itself() -> None:
    lines = (DATA / "log-2.jsonl").read_bytes().splitlines()
    assert replay(lines) == lines


@pytest.mark.parametrize("number", [1, 2, 3])
def test_weights_of_any_format_are_read_whole(number: int) -> None:
    found, made = unpack((DATA / f"weights-{number}.safetensors").read_bytes(), "w"), stored.weights()
    assert found.architecture == made.architecture
    assert found.arrays.keys() == made.arrays.keys()
    assert all(np.array_equal(found.arrays[name], array) for name, array in made.arrays.items())


def test_what_is_written_today_is_what_the_newest_format_has(tmp_path: Path) -> None:
    stored.write(tmp_path)
    written = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(written) == 3
    assert {path.name for path in written if path.read_bytes() != (DATA / path.name).read_bytes()} == set()
