"""How much is written: the newest word on each object, no faster than allowed, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from operators.client import ApiError, Client, NotFound, Unreachable
from operators.extender.reports import ReportWriter
from schedulers.objects.dagjob import PlanStatus, PromiseStatus
from schedulers.objects.meta import Meta
from schedulers.objects.names import WAITING_CONDITION
from schedulers.objects.pod import Condition, Pod, PodStatus
from schedulers.objects.queue import QueueObject


def pod(name: str = "p", *conditions: Condition) -> Pod:
    return Pod(metadata=Meta(name=name, namespace="ns", uid=name), status=PodStatus(conditions=list(conditions)))


class Listener:
    """A client that hears what is said; `answers` are given first."""

    def __init__(self, *answers: ApiError) -> None:
        self.answers, self.heard = deque(answers), list[tuple[float, str, Any]]()

    async def patch(self, path: str, body: Any, **_: Any) -> bytes:
        if self.answers:
            raise self.answers.popleft()
        self.heard.append((asyncio.get_running_loop().time(), path.split("/")[-2], body["status"]))
        return b"{}"

    @property
    def words(self) -> list[tuple[str, str]]:
        return [(name, status["conditions"][0].message) for _, name, status in self.heard]


def heard(
    say: Callable[[ReportWriter], None], *answers: ApiError, per_second: float = 1000, for_s: float = 0.3
) -> Listener:
    async def main() -> Listener:
        listener = Listener(*answers)
        conditions = ReportWriter(cast(Client, listener), per_second=per_second)
        task = asyncio.ensure_future(conditions.run())
        say(conditions)
        await asyncio.sleep(for_s)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return listener

    return asyncio.run(main())


def test_only_the_newest_word_is_written() -> None:
    def say(conditions: ReportWriter) -> None:
        for i in range(10):
            conditions.report_pod(pod(), "NoRoom", str(i))

    assert heard(say).words == [("p", "9")]


def test_what_the_pod_says_already_is_not_said_again() -> None:
    told = pod("p", Condition(WAITING_CONDITION, "True", "NoRoom", "x"))
    assert heard(lambda conditions: conditions.report_pod(told, "NoRoom", "x")).words == []


def test_taking_a_word_back_before_it_is_written_writes_nothing() -> None:
    told = pod("p", Condition(WAITING_CONDITION, "True", "NoRoom", "x"))

    def say(conditions: ReportWriter) -> None:
        conditions.report_pod(told, "NoRoom", "y")
        conditions.report_pod(told, "NoRoom", "x")

    assert heard(say).words == []


@pytest.mark.parametrize(
    "say",
    [
        lambda conditions: conditions.report_pod(pod(), "NoRoom", "x"),
        lambda conditions: conditions.report_dagjob(
            "ns/j", uid="j", reason="NoRoom", message="x", position=1, estimate_s=None
        ),
    ],
    ids=["pod", "dagjob"],
)
def test_a_word_that_could_not_be_written_is_not_lost_when_it_is_said_again(
    say: Callable[[ReportWriter], None],
) -> None:
    async def main() -> int:
        listener = Listener(Unreachable("away"))
        conditions = ReportWriter(cast(Client, listener), per_second=1000)
        task = asyncio.ensure_future(conditions.run())
        say(conditions)
        while listener.answers:
            await asyncio.sleep(0)
        say(conditions)
        await asyncio.sleep(0.3)
        task.cancel()
        return len(listener.heard)

    assert asyncio.run(main()) == 1


def test_a_pod_released_before_anything_was_said_costs_no_write() -> None:
    def say(conditions: ReportWriter) -> None:
        conditions.report_pod(pod(), "NoRoom", "x")
        conditions.report_released(pod(), "n1")

    assert heard(say).words == []


def test_a_pod_released_before_the_watch_brought_its_condition_back_is_told_so() -> None:
    async def main() -> Listener:
        listener = Listener()
        conditions = ReportWriter(cast(Client, listener), per_second=1000)
        task = asyncio.ensure_future(conditions.run())
        conditions.report_pod(pod(), "NoRoom", "x")
        await asyncio.sleep(0.1)
        conditions.report_released(pod(), "n1")
        await asyncio.sleep(0.1)
        task.cancel()
        return listener

    assert asyncio.run(main()).words == [("p", "x"), ("p", "released to node n1")]


def test_writes_keep_to_the_limit() -> None:
    def say(conditions: ReportWriter) -> None:
        for i in range(100):
            conditions.report_pod(pod(str(i)), "NoRoom", "x")

    assert 8 <= len(heard(say, per_second=20, for_s=0.52).heard) <= 11


def test_pods_and_dagjobs_take_turns() -> None:
    def say(conditions: ReportWriter) -> None:
        for i in range(50):
            conditions.report_pod(pod(str(i)), "NoRoom", "x")
            conditions.report_dagjob(f"ns/{i}", uid=f"d{i}", reason="NoRoom", message="x", position=1, estimate_s=None)

    first = heard(say).heard[:10]
    assert Counter("conditions" in status for _, _, status in first) == {True: 5, False: 5}


def test_who_is_overwritten_keeps_its_place() -> None:
    def say(conditions: ReportWriter) -> None:
        for i in range(5):
            conditions.report_pod(pod(str(i)), "NoRoom", "x")
        conditions.report_pod(pod("0"), "NoRoom", "y")

    assert heard(say).words[0] == ("0", "y")


def test_a_fault_of_the_api_server_loses_no_word() -> None:
    faults = (Unreachable("no"), ApiError(500, "", ""), ApiError(429, "", ""))
    listener = heard(lambda conditions: conditions.report_pod(pod(), "NoRoom", "x"), *faults, for_s=1.0)
    assert listener.words == [("p", "x")]


def test_an_object_that_is_gone_is_forgotten() -> None:
    def say(conditions: ReportWriter) -> None:
        conditions.report_pod(pod("gone"), "NoRoom", "x")
        conditions.report_pod(pod("here"), "NoRoom", "x")

    assert heard(say, NotFound(404, "", "")).words == [("here", "x")]


def test_a_dagjob_is_not_told_twice() -> None:
    async def main() -> Listener:
        listener = Listener()
        conditions = ReportWriter(cast(Client, listener), per_second=1000)
        task = asyncio.ensure_future(conditions.run())
        for _ in range(3):
            conditions.report_dagjob("ns/d", uid="d", reason="NoRoom", message="x", position=1, estimate_s=1.0)
            await asyncio.sleep(0.05)
        task.cancel()
        return listener

    assert len(asyncio.run(main()).heard) == 1


def test_a_plan_and_the_wait_are_words_of_their_own() -> None:
    plan = PlanStatus(machines=1)

    def say(conditions: ReportWriter) -> None:
        for _ in range(2):
            conditions.report_plan("ns/d", uid="d", plan=plan)
            conditions.report_dagjob("ns/d", uid="d", reason="NoRoom", message="x", position=1, estimate_s=None)

    words = [status for _, _, status in heard(say).heard]
    assert [sorted(word) for word in words] == [["plan"], ["estimateSeconds", "message", "position", "reason"]]
    assert words[0] == {"plan": msgspec.to_builtins(plan)}


def test_a_promise_is_a_word_of_its_own_as_well() -> None:
    promise = PromiseStatus(message="finishes 14:02 ± 3 min, deadline 14:10", containers=4)

    def say(conditions: ReportWriter) -> None:
        for _ in range(2):
            conditions.report_promise("ns/d", uid="d", promise=promise)
            conditions.report_plan("ns/d", uid="d", plan=PlanStatus())

    assert [list(status) for _, _, status in heard(say).heard] == [["promise"], ["plan"]]


def test_a_dagjob_that_is_gone_is_told_nothing() -> None:
    def say(conditions: ReportWriter) -> None:
        conditions.report_promise("ns/d", uid="d", promise=PromiseStatus())
        conditions.report_plan("ns/d", uid="d", plan=PlanStatus())
        conditions.report_dagjob("ns/d", uid="d", reason="NoRoom", message="x", position=1, estimate_s=None)
        conditions.forget_dagjob("d")

    assert heard(say).heard == []


def test_a_rate_that_allows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ReportWriter(cast(Client, Listener()), per_second=0)


def told_pod(name: str) -> Pod:
    return pod(name, Condition(WAITING_CONDITION, "True", "NoRoom", "x"))


def test_who_was_told_nothing_yet_comes_before_who_hears_other_numbers() -> None:
    def say(conditions: ReportWriter) -> None:
        for i in range(5):
            conditions.report_pod(told_pod(f"told {i}"), "NoRoom", "y")
        conditions.report_pod(pod("untold"), "NoRoom", "x")

    assert heard(say).words[0] == ("untold", "x")


def test_of_those_who_were_told_nothing_yet_the_oldest_comes_first() -> None:
    def say(conditions: ReportWriter) -> None:
        for second in (3, 1, 2):
            meta = Meta(
                name=str(second), namespace="ns", uid=str(second), creationTimestamp=f"2026-01-01T00:00:0{second}Z"
            )
            conditions.report_pod(Pod(metadata=meta), "NoRoom", "x")

    assert [name for name, _ in heard(say).words] == ["1", "2", "3"]


def test_a_wait_that_is_over_takes_turns_with_those_that_begin() -> None:
    def say(conditions: ReportWriter) -> None:
        for i in range(5):
            conditions.report_pod(pod(f"untold {i}"), "NoRoom", "x")
            conditions.report_released(told_pod(f"over {i}"), "n1")

    assert Counter(name[:4] for name, _ in heard(say).words[:6]) == {"unto": 3, "over": 3}


def test_a_pod_that_ended_without_a_node_is_not_said_to_have_been_released() -> None:
    def say(conditions: ReportWriter) -> None:
        ended = told_pod("p")
        ended.status.phase = "Failed"
        conditions.report_released(ended, None)

    (word,) = heard(say).heard
    assert (word[2]["conditions"][0].status, word[2]["conditions"][0].reason) == ("False", "Ended")


class Scribe(Listener):
    """A client that hears of Events too."""

    async def create(self, path: str, body: Any) -> bytes:
        self.heard.append((0.0, body["regarding"]["name"], body))
        return b"{}"


def events_of(reasons: list[str]) -> list[str]:
    """Reasons of the Events that are written when a pod is told these in turn."""

    async def main() -> list[str]:
        scribe = Scribe()
        conditions = ReportWriter(cast(Client, scribe), per_second=1000)
        task = asyncio.ensure_future(conditions.run())
        for reason in reasons:
            conditions.report_event("Pod", pod().metadata, reason, "x")
            await asyncio.sleep(0.05)
        task.cancel()
        return [body["reason"] for _, _, body in scribe.heard]

    return asyncio.run(main())


def test_an_event_comes_once_for_each_reason_however_often_it_comes_back() -> None:
    assert events_of(["NoRoom", "BehindOthers"] * 5) == ["NoRoom", "BehindOthers"]


def test_a_pod_that_is_released_before_its_event_is_written_gets_none() -> None:
    def say(conditions: ReportWriter) -> None:
        conditions.report_event("Pod", pod().metadata, "NoRoom", "x")
        conditions.report_released(pod(), "n1")
        assert conditions.pending == 0

    assert heard(say).heard == []


def test_figures_that_a_queue_shows_already_are_not_written_again() -> None:
    queue = QueueObject(Meta(name="q", uid="q"))
    fields = {"jobs": 1, "pending": 2, "running": 3, "share": "12.5%"}

    def say(conditions: ReportWriter) -> None:
        conditions.report_queue(queue, {"jobs": 0, "pending": 0, "running": 0, "share": ""})
        assert conditions.pending == 0
        for _ in range(2):
            conditions.report_queue(queue, fields)

    assert [status for _, _, status in heard(say).heard] == [fields]
