"""The log: lines, their hash, reading them back."""

from __future__ import annotations

import hashlib
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.testing import job, node, replay, scheduler, stage
from schedulers.core import log as log_module
from schedulers.core.decisions import Hold, Place
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import ContainerEnded, Heartbeat, JobSubmitted, NodeAdded, Tick
from schedulers.core.log import Header, Ignored, Log, SchedulerConfig, parse
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


def logged(**config: object) -> tuple[list[bytes], Log]:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    made = scheduler("fifo", node(), log=log, **config)
    made.handle(JobSubmitted(0, job("a", stage(2))))
    made.handle(Tick(1))
    made.handle(ContainerEnded(5, 1, 0, 5))
    made.handle(ContainerEnded(6, 1, 0, 5))
    log.flush()
    return b"".join(chunks).splitlines(), log


def test_the_first_line_is_the_header() -> None:
    header = next(parse(logged()[0]))
    assert isinstance(header, Header)
    assert header.config == SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="event")


def test_lines_read_back_as_what_was_written() -> None:
    lines = list(parse(logged()[0]))[1:]
    assert lines == [
        NodeAdded(0, node()),
        JobSubmitted(0, job("a", stage(2))),
        Place(1, "n", "a", 0, 0),
        Hold("a", Reason.NO_ROOM),
        ContainerEnded(5, 1, 0, 5),
        Place(2, "n", "a", 0, 1),
        Ignored(ContainerEnded(6, 1, 0, 5), "late"),
    ]


def test_facts_that_changed_nothing_are_left_out() -> None:
    assert not any(isinstance(line, Tick | Heartbeat) for line in parse(logged()[0]))


def test_the_hash_is_over_the_lines_as_written() -> None:
    lines, log = logged()
    assert log.sha256 == hashlib.sha256(b"\n".join(lines) + b"\n").hexdigest()


def test_the_hash_streams_without_keeping_anything() -> None:
    log = Log()
    made = scheduler("fifo", node(), log=log)
    made.handle(JobSubmitted(0, job("a")))
    kept = Log(lambda chunk: None)
    again = scheduler("fifo", node(), log=kept)
    again.handle(JobSubmitted(0, job("a")))
    assert log.sha256 == kept.sha256


def test_decisions_alone_may_be_kept_and_the_hash_still_covers_everything() -> None:
    chunks: list[bytes] = []
    log = Log(chunks.append, only_decisions=True)
    made = scheduler("fifo", node(), log=log)
    made.handle(JobSubmitted(0, job("a", stage(2))))
    log.flush()
    full = Log()
    again = scheduler("fifo", node(), log=full)
    again.handle(JobSubmitted(0, job("a", stage(2))))
    assert [type(line) for line in parse(b"".join(chunks).splitlines())] == [Header, Place, Hold]
    assert log.sha256 == full.sha256


def test_numbers_inside_a_hold_are_not_in_the_log() -> None:
    held = next(line for line in logged()[0] if line.startswith(b'{"decision":"Hold"'))
    assert msgspec.json.decode(held) == {"decision": "Hold", "job": "a", "reason": "no_room"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"event":"Heartbeat","at":1,"node":', "truncated"),
        (b'{"event":"Heartbeet","at":1,"node":"n"}', "Heartbeet"),
        (b'{"event":"Heartbeat","at":"x","node":"n"}', "at"),
        (b'{"decision":"Plaice","container":1}', "Plaice"),
        (b'{"note":"Nothing"}', "Nothing"),
        (b"\xff\xfe", "line 3"),
        (b"", "line 3"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(line: bytes, words: str) -> None:
    lines = logged()[0]
    with pytest.raises(InvalidTransition, match=r"line 3 of the log cannot be read") as raised:
        list(parse([*lines[:2], line]))
    assert words in str(raised.value)


def test_a_log_replays_to_itself() -> None:
    lines = logged()[0]
    assert replay(lines) == lines


def test_a_log_may_begin_with_a_snapshot() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a", stage(2))))
    chunks: list[bytes] = []
    log = Log(chunks.append)
    Scheduler.restore(made.snapshot(), log=log)
    log.flush()
    header = next(parse(b"".join(chunks).splitlines()))
    assert isinstance(header, Header)
    assert header.snapshot == made.snapshot()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 6))
def test_facts_added_together_fill_the_same_chunks(counts: list[int], chunk: int) -> None:
    written: dict[bool, list[bytes]] = {True: [], False: []}
    with mock.patch.object(log_module, "_CHUNK", chunk):
        for together, chunks in written.items():
            log = Log(chunks.append)
            for number, count in enumerate(counts):
                beats = [Heartbeat(number, f"n{node}") for node in range(count)]
                if together:
                    log.add_all(beats)
                else:
                    for beat in beats:
                        log.add(beat, [])
            log.flush()
    assert written[True] == written[False]
