"""A core that follows the brain by the lines of its log is the brain's core, whatever the brain goes through."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from schedulers.core.events import Tick
from schedulers.core.following import Astray, Follower
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import BrainSnapshot
from tests.kubernetes.test_brain_chaos import Chaos

#: Policy, predictor, placement, and ms after which nodes are reserved.
BRAINS = (
    ("fifo", None, "first_fit", 5),
    ("gs", "slearn", "first_fit", 5),
    ("graphene", "slearn", "first_fit", None),
    ("drf", "posterior", "first_fit", 5),
    ("sjf", "slearn", "deft", None),
)
ACTS = 40


class Mark(NamedTuple):
    """A place in the log of a term, and the brain's core there."""

    log: bytearray
    bytes: int
    core: bytes

    @property
    def line(self) -> int:
        return self.log.count(b"\n", 0, self.bytes)

    @property
    def now(self) -> int:
        return int(msgspec.msgpack.decode(self.core)["state"]["now"])


def marks(seed: int, policy: str, predictor: str | None, placement: str, reserve_after: int | None) -> list[Mark]:
    """A mark behind each act of a brain to which all may happen, changes of leaders included."""
    made, found = Chaos(seed, policy, predictor, placement), []
    world = made.world
    world.config = msgspec.structs.replace(world.config, reserve_after=reserve_after)
    world.new_leader()
    for _ in range(ACTS):
        made.act(times=1, groups=True)
        world.log.flush()
        core = msgspec.msgpack.decode(world.brain.snapshot(), type=BrainSnapshot).core
        found.append(Mark(world.logs[-1], len(world.logs[-1]), core))
    return found


def without_readers(core: bytes) -> dict[str, Any]:
    """A snapshot without what the policy has not read yet: a restored policy reads sooner."""
    found: dict[str, Any] = msgspec.msgpack.decode(core)
    del found["state"]["touched"]
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("brain", BRAINS, ids=lambda brain: "-".join(map(str, brain)))
def test_a_followed_core_equals_the_one_restored_from_the_brains_dump_at_the_same_place(
    brain: tuple[str, str | None, str, int | None], seed: int
) -> None:
    follower, before = None, None
    followed = 0
    for mark in marks(seed, *brain):
        if follower is None or before is None or mark.log is not before.log:
            follower, before = Follower(mark.core, mark.line), mark
            continue
        follower.hear(bytes(mark.log[before.bytes : mark.bytes]), mark.now)
        followed, before = followed + 1, mark
        assert follower.line == mark.line
        own = follower.scheduler.snapshot()
        assert msgspec.msgpack.encode(without_readers(own)) == msgspec.msgpack.encode(without_readers(mark.core))
        here, there = Scheduler.restore(own), Scheduler.restore(mark.core)
        next_tick = Tick(mark.now + 1)
        assert here.handle(next_tick) == there.handle(next_tick)
        assert here.snapshot() == there.snapshot()
    assert followed > ACTS // 2


def of_a_term() -> tuple[Mark, Mark]:
    """Two marks in one log, with decisions between them."""
    found = marks(1, "fifo", None, "first_fit", None)
    pairs = [(a, b) for a in found for b in found if a.log is b.log and a.bytes < b.bytes]
    return next((a, b) for a, b in pairs if b'{"decision":"Place"' in b.log[a.bytes : b.bytes])


def test_a_line_that_the_follower_would_not_have_written_is_found() -> None:
    start, end = of_a_term()
    told = bytes(end.log[start.bytes : end.bytes])
    line = told[: told.index(b'{"decision":"Place"')].count(b"\n")
    lines = told.splitlines(keepends=True)
    for other in (lines[line + 1 :], [lines[line].replace(b'"task":', b'"task":9'), *lines[line + 1 :]]):
        with pytest.raises(Astray, match=rf"^line {start.line + line + 1} of the log would be another here$"):
            Follower(start.core, start.line).hear(b"".join(lines[:line] + other), end.now)


def test_a_fact_that_cannot_be_is_found() -> None:
    start, end = of_a_term()
    follower = Follower(start.core, start.line)
    with pytest.raises(Astray, match=rf"^a fact behind line {start.line} of the log cannot be: .*time runs backwards"):
        follower.hear(b'{"event":"Tick","at":1}\n', end.now)


def test_the_beginning_of_another_log_is_no_part_of_the_tail() -> None:
    start, end = of_a_term()
    with pytest.raises(Astray, match="another log begins"):
        Follower(start.core, start.line).hear(bytes(end.log[: end.bytes]), end.now)
