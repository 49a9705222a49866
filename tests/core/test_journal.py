"""The journal: each reader gets what changed since it last read, once each, and nobody makes it grow for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.events import ContainerEnded, ContainerStarted, JobSubmitted, Tick
from schedulers.core.journal import UNREAD, Journal, Topic
from schedulers.core.scheduler import Scheduler


def test_each_id_comes_once_in_the_order_of_its_first_change() -> None:
    topic: Topic[str] = Topic()
    cursor = topic.cursor()
    for name in ("b", "a", "b", "c", "a"):
        topic.note(name)
    assert list(cursor.read()) == ["b", "a", "c"]
    assert list(cursor.read()) == []


def test_readers_take_nothing_from_each_other() -> None:
    topic: Topic[int] = Topic()
    first, second = topic.cursor(), topic.cursor()
    topic.note(1)
    assert list(first.read()) == [1]
    topic.note(2)
    assert list(first.read()) == [2]
    assert list(second.read()) == [1, 2]


def test_a_new_reader_has_read_all_there_is() -> None:
    topic: Topic[int] = Topic()
    topic.note(1)
    assert not topic.cursor().read()


@given(st.lists(st.one_of(st.integers(0, 9), st.sampled_from(("read 0", "read 1", "read 2", "trim")))))
def test_trimming_changes_nothing_for_any_reader(steps: list[int | str]) -> None:
    plain, trimmed = Topic[int](), Topic[int]()
    readers = [(plain.cursor(), trimmed.cursor()) for _ in range(3)]
    for step in steps:
        if isinstance(step, int):
            plain.note(step)
            trimmed.note(step)
        elif step == "trim":
            trimmed.trim()
        else:
            one, other = readers[int(step[-1])]
            assert list(one.read()) == list(other.read())
    assert all(list(one.read()) == list(other.read()) for one, other in readers)


def test_without_readers_nothing_is_kept() -> None:
    made = Journal()
    made.sizes.note(1)
    made.trim(lambda name: True)
    assert not made.sizes.entries


def test_a_reader_far_behind_is_not_told_of_what_is_gone() -> None:
    topic: Topic[int] = Topic()
    cursor = topic.cursor()
    for number in range(UNREAD + 1):
        topic.note(number)
    topic.trim(range(0, UNREAD + 1, 2).__contains__)
    assert list(cursor.read()) == list(range(0, UNREAD + 1, 2))


def test_a_policy_that_never_asks_what_has_changed_keeps_the_journal_short() -> None:
    made = scheduler("fifo", node("n", 1))
    made.policy.schedule = lambda view, offer: iter(())  # type: ignore[method-assign]
    orders = made.state.journal.orders
    for number in range(2 * UNREAD):
        orders.note(f"gone-{number}")
        # A fact trims what has become too long; of the jobs so far none is live.
        if len(orders.entries) > orders.longest:
            made.state.hear(JobSubmitted(number, job(f"j{number}", stage())))
            made.state.jobs.clear()
    assert len(orders.entries) <= UNREAD + 1


def test_what_was_not_read_is_read_after_a_restart() -> None:
    made = scheduler("fifo", node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(3))))
    made.handle(Tick(1))
    made.handle(ContainerStarted(2, 1))
    made.handle(ContainerEnded(3, 1, 0, 1))
    made.state.journal.reasons.note("a")
    again = Scheduler.restore(made.snapshot())
    assert list(again.view.changed()) == list(made.view.changed()) == ["a"]
    assert list(again.state.journal.reasons.unread()) == ["a"]
