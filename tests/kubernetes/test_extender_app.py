"""How the extender answers: in the verb's own way, in time, and never with a name that was not asked about."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from operators import metrics
from operators.extender import wire
from operators.extender.app import UNEXPLAINED, Extender
from operators.extender.figures import Figures, show_figures
from operators.extender.wire import FilterAnswer
from operators.serving.server import management
from tests.kubernetes.calls import POD, Recorder, _drive, call

ASKED = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}
VICTIMS = {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 0}}}
BODIES = {"filter": ASKED, "prioritize": ASKED, "preempt": VICTIMS}


def count(verb: str, outcome: str) -> float:
    return metrics.REGISTRY.get_sample_value("rm_extender_requests_total", {"verb": verb, "outcome": outcome}) or 0.0


def test_filter_hands_pod_and_names_to_the_brain() -> None:
    brain = Recorder()
    assert call(brain, "filter", ASKED).json["NodeNames"] == ["a"]
    assert [(verb, pod.key, nodes) for verb, pod, nodes in brain.calls] == [("filter", "ns/p", ["a", "b"])]


def test_an_answer_has_a_length_so_that_the_connection_can_be_used_again() -> None:
    reply = call(Recorder(), "filter", ASKED)
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.headers["content-type"] == "application/json"


def test_prioritize_answers_the_brains_scores() -> None:
    brain = Recorder()
    brain.scores = [("b", 10)]
    assert call(brain, "prioritize", ASKED).json == [{"Host": "b", "Score": 10}]


def test_preempt_answers_the_brains_victims() -> None:
    brain = Recorder()
    brain.victims = {"a": (["1", "2"], 1)}
    nodes = {"a": {"Pods": [{"UID": "1"}, {"UID": "2"}], "NumPDBViolations": 1}}
    assert call(brain, "preempt", VICTIMS).json == {"NodeNameToMetaVictims": nodes}


def test_preempt_accepts_empty_lists_of_victims() -> None:
    body = {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": None, "NumPDBViolations": 0}}}
    assert call(Recorder(), "preempt", body).json["NodeNameToMetaVictims"]["a"]["Pods"] == []


def test_both_kinds_of_reasons_are_passed_on() -> None:
    brain = Recorder()
    brain.answer = lambda pod, nodes: FilterAnswer([], {"a": "full"}, {"b": "tainted"})
    reply = call(brain, "filter", ASKED).json
    assert (reply["FailedNodes"], reply["FailedAndUnresolvableNodes"]) == ({"a": "full"}, {"b": "tainted"})


def test_a_node_that_the_brain_does_not_mention_has_a_reason_when_none_is_left() -> None:
    brain = Recorder()
    brain.answer = lambda pod, nodes: FilterAnswer([], {"a": "full"})
    assert call(brain, "filter", ASKED).json["FailedAndUnresolvableNodes"] == {"b": UNEXPLAINED}


def test_a_name_that_was_not_asked_about_is_dropped_and_counted() -> None:
    brain = Recorder()
    brain.answer = lambda pod, nodes: FilterAnswer(["x", "a"], {"y": "full"}, {"z": "tainted"})
    before = metrics.REGISTRY.get_sample_value("rm_extender_dropped_names_total", {"verb": "filter"}) or 0
    reply = call(brain, "filter", ASKED).json
    assert (reply["NodeNames"], reply["FailedNodes"], reply["FailedAndUnresolvableNodes"]) == (["a"], {}, {})
    assert metrics.REGISTRY.get_sample_value("rm_extender_dropped_names_total", {"verb": "filter"}) == before + 1


def test_a_host_or_victims_node_that_was_not_asked_about_is_dropped() -> None:
    brain = Recorder()
    brain.scores, brain.victims = [("x", 1)], {"x": (["1"], 0)}
    assert call(brain, "prioritize", ASKED).json == []
    assert call(brain, "preempt", VICTIMS).json == {"NodeNameToMetaVictims": {}}


def test_the_brains_error_is_the_answers_error() -> None:
    brain = Recorder()
    brain.answer = lambda pod, nodes: FilterAnswer(["a"], error="the DagJob is not known yet")
    reply = call(brain, "filter", ASKED)
    assert (reply.status, reply.json["Error"], reply.json["NodeNames"]) == (200, "the DagJob is not known yet", [])


def test_a_brain_that_is_not_ready_is_not_asked() -> None:
    brain = Recorder()
    brain.why_not = "another replica leads"
    reply = call(brain, "filter", ASKED)
    assert (reply.status, reply.json["Error"]) == (200, "not ready: another replica leads")
    assert brain.calls == []


def test_a_brain_that_is_not_ready_closes_the_connection_so_that_the_next_call_finds_the_leader() -> None:
    brain = Recorder()
    brain.why_not = "another replica leads"
    assert call(brain, "filter", ASKED).headers["connection"] == "close"
    brain.why_not = None
    assert "connection" not in call(brain, "filter", ASKED).headers


def test_an_exception_of_the_brain_is_an_error_of_that_call_only() -> None:
    brain = Recorder()
    brain.answer = lambda pod, nodes: FilterAnswer([str({}["gone"])])
    before = count("filter", "error")
    assert call(brain, "filter", ASKED).json["Error"] == "internal error: KeyError: 'gone'"
    assert count("filter", "error") == before + 1


@pytest.mark.parametrize(
    ("verb", "status", "body"),
    [
        ("filter", 200, b'"Error":"not ready: asleep"'),
        ("prioritize", 200, b"[]"),
        ("preempt", 503, b"not ready: asleep"),
    ],
)
def test_each_verb_fails_in_its_own_way(verb: str, status: int, body: bytes) -> None:
    brain = Recorder()
    brain.why_not = "asleep"
    reply = call(brain, verb, BODIES[verb])
    assert reply.status == status
    assert body in reply.body


@pytest.mark.parametrize(("verb", "status"), [("filter", 200), ("prioritize", 200), ("preempt", 400)])
def test_a_truncated_body_is_answered(verb: str, status: int) -> None:
    assert call(Recorder(), verb, b'{"Pod":{"metadata"').status == status


def test_a_body_beyond_the_limit_says_what_to_configure() -> None:
    reply = call(Recorder(), "filter", ASKED, body_limit=10)
    assert reply.status == 200
    assert "nodeCacheCapable: true" in reply.json["Error"]
    assert reply.headers["connection"] == "close"


def test_a_body_beyond_the_limit_is_noticed_without_a_length() -> None:
    app = Extender(Recorder(), budget_s=5, body_limit=10).app()
    reply = asyncio.run(_drive(app, "preempt", "POST", [], [b"12345", b"67890", b"1"]))
    assert reply.status == 413


MANY = wire.MOST + 1
UIDS = [{"UID": str(i)} for i in range(MANY)]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("filter", {"Pod": POD, "NodeNames": [f"n{i}" for i in range(MANY)]}),
        ("filter", {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "n"}}] * MANY}}),
        ("prioritize", {"Pod": POD, "NodeNames": ["n"] * MANY}),
        ("preempt", {"Pod": POD, "NodeNameToMetaVictims": {f"n{i}": {"Pods": []} for i in range(MANY)}}),
        ("preempt", {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": UIDS[1:]}, "b": {"Pods": UIDS[:2]}}}),
    ],
    ids=["names", "nodes", "equal names", "victims' nodes", "victims"],
)
def test_a_call_about_more_than_any_cluster_has_is_refused_and_counted(verb: str, body: Any) -> None:
    brain, before = Recorder(), count(verb, "large")
    reply = call(brain, verb, body)
    assert {"filter": b"in one call", "prioritize": b"[]", "preempt": b"in one call"}[verb] in reply.body
    assert reply.status == (413 if verb == "preempt" else 200)
    assert (brain.calls, count(verb, "large")) == ([], before + 1)


def test_three_million_names_are_not_even_read() -> None:
    body = msgspec.json.encode({"Pod": POD, "NodeNames": [f"node-{i:07}" for i in range(3_000_000)]})
    assert "the body has more than" in call(Recorder(), "filter", body).json["Error"]


def test_as_many_names_as_are_allowed_are_answered() -> None:
    longest = [f"{i:05}" + 248 * "x" for i in range(wire.MOST)]
    assert call(Recorder(), "filter", {"Pod": POD, "NodeNames": longest}).json["NodeNames"] == longest[:1]


def test_another_method_is_refused() -> None:
    reply = call(Recorder(), "filter", b"", method="GET")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


def test_another_verb_is_refused_with_what_there_is() -> None:
    reply = call(Recorder(), "bind", {})
    assert (reply.status, b"/v1/filter" in reply.body) == (404, True)


def test_another_content_type_is_refused() -> None:
    reply = call(Recorder(), "preempt", b"a=b", content_type="application/x-www-form-urlencoded")
    assert (reply.status, b"application/json" in reply.body) == (415, True)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_decision_that_comes_too_late_is_an_error() -> None:
    clock, brain = Clock(), Recorder()

    def slow(pod: Any, nodes: Any) -> FilterAnswer:
        clock.now += 2
        return FilterAnswer(["a"])

    brain.answer = slow
    before = count("filter", "late")
    reply = call(brain, "filter", ASKED, budget_s=1.0, clock=clock)
    assert "budget of 1 s was used up after the decision" in reply.json["Error"]
    assert count("filter", "late") == before + 1


def test_a_call_that_comes_too_late_does_not_reach_the_brain() -> None:
    brain = Recorder()
    times = iter([0.0, 0.0])
    reply = call(brain, "filter", ASKED, budget_s=1.0, clock=lambda: next(times, 9.0))
    assert "used up before the decision" in reply.json["Error"]
    assert brain.calls == []


def test_a_body_that_never_ends_is_answered_when_the_budget_is_used_up() -> None:
    async def hang() -> tuple[float, bytes]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not sent:
                sent.append(1)
                return {"type": "http.request", "body": b"{", "more_body": True}
            await asyncio.sleep(60)
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/filter",
            "headers": [],
            "query_string": b"",
            "state": {},
        }
        began = time.monotonic()
        await Extender(Recorder(), budget_s=0.1).app()(scope, receive, send)
        return time.monotonic() - began, sent[-1]["body"]

    took, body = asyncio.run(hang())
    assert b"while the body was still coming" in body
    assert took < 5


def test_readiness_names_the_reason() -> None:
    async def get(path: str, why: str | None) -> tuple[int, bytes]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
        await management(lambda: why)(scope, receive, send)
        return sent[0]["status"], sent[1]["body"]

    assert asyncio.run(get("/readyz", None)) == (200, b"ok")
    assert asyncio.run(get("/readyz", "nothing was heard")) == (503, b"not ready: nothing was heard")
    assert asyncio.run(get("/healthz", "nothing was heard")) == (200, b"ok")
    assert b"rm_leader" in asyncio.run(get("/metrics", None))[1]


def test_every_metric_is_in_the_table() -> None:
    table = metrics.table()
    names = {metric.name for metric in metrics.REGISTRY.collect() if metric.name.startswith("rm_")}
    assert len(names) > 20
    assert all(f"`{name}" in table for name in names)


def test_a_reason_that_nobody_waits_for_any_more_disappears() -> None:
    metrics.show(metrics.HOLDS, {"X": 2})
    metrics.show(metrics.HOLDS, {"Y": 1})
    assert metrics.REGISTRY.get_sample_value("rm_holds", {"reason": "X"}) is None


def test_figures_of_a_queue_that_is_gone_disappear() -> None:
    metrics.show(metrics.PENDING, {"gone": 1})
    show_figures({"gone": Figures(1, 1, 2, 0.5)})
    metrics.show(metrics.PENDING, {"here": 1})
    show_figures({"here": Figures(1, 1, 2, 0.5)})
    shown = {
        (sample.name, sample.labels["queue"])
        for family in metrics.REGISTRY.collect()
        for sample in family.samples
        if "queue" in sample.labels
    }
    names = ("rm_pending_pods", "rm_queue_pending_pods", "rm_queue_running_pods", "rm_queue_share")
    assert shown == {(name, "here") for name in names}
