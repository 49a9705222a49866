"""The release patch as data, and what the queue does with answers that a real API server gives rarely."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from operators.client import ApiError, Client, Forbidden, Invalid, NotFound, Unreachable
from operators.extender import releases as module
from operators.extender.releases import Outcome, ReleaseWriter, is_narrowed, release_patch
from operators.extender.window import Window
from schedulers.objects.names import GANG_PLAN, GATE
from schedulers.objects.pod import Pod
from tests.kubernetes.store import until

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
NODE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def raw(name: str = "p", *, uid: str = "u", gates: tuple[str, ...] = (GATE,), **spec: Any) -> dict[str, Any]:
    owner = {"kind": "DagJob", "name": "d", "uid": "owner", "controller": True}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "ownerReferences": [owner]},
        "spec": {"schedulingGates": [{"name": gate} for gate in gates], **spec},
    }


def pod(name: str = "p", **spec: Any) -> Pod:
    return msgspec.convert(raw(name, **spec), Pod)


def terms(*each: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(each)}}}


def added(patch: list[dict[str, Any]] | None) -> list[str]:
    return [operation["path"] for operation in patch or () if operation["op"] == "add"]


def test_our_gate_is_removed_at_its_place_among_others() -> None:
    patch = release_patch(pod(gates=("a/b", GATE, "c/d")), None)
    assert patch is not None
    assert patch[1:] == [
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ]


def test_the_patch_is_for_this_pod_and_none_of_its_name() -> None:
    patch = release_patch(pod(uid="42"), None)
    assert patch is not None
    assert patch[0] == {"op": "test", "path": "/metadata/uid", "value": "42"}


def test_a_pod_without_our_gate_has_no_patch() -> None:
    assert release_patch(pod(gates=("a/b",)), "n1") is None


def test_without_a_node_no_constraint_is_added() -> None:
    assert added(release_patch(pod(affinity=terms({"matchExpressions": [ZONE]})), None)) == []


def test_every_term_is_narrowed() -> None:
    both = pod(affinity=terms({"matchExpressions": [ZONE]}, {"matchFields": [{**NODE, "values": ["n1", "n2"]}]}))
    path = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"
    assert added(release_patch(both, "n1")) == [f"{path}/0/matchFields", f"{path}/1/matchFields/-"]


def test_a_term_that_matches_no_node_stays_so() -> None:
    path = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"
    assert added(release_patch(pod(affinity=terms({}, {"matchExpressions": [ZONE]})), "n1")) == [
        f"{path}/1/matchFields"
    ]


def test_what_names_the_node_already_is_narrowed() -> None:
    narrowed = pod(affinity=terms({"matchFields": [NODE]}))
    assert is_narrowed(narrowed, "n1")
    assert added(release_patch(narrowed, "n1")) == []


@pytest.mark.parametrize(
    "affinity",
    [
        None,
        {},
        terms({"matchExpressions": [ZONE]}),
        terms({}),
        terms({"matchFields": [NODE]}, {"matchExpressions": [ZONE]}),
    ],
)
def test_a_way_round_the_node_is_not_narrowed(affinity: dict[str, Any] | None) -> None:
    assert not is_narrowed(pod(affinity=affinity), "n1")


# -- the queue ----------------------------------------------------------------------------------

FAILED_TEST = Invalid(422, "Invalid", "the server rejected our request due to an error in our request")


class Answers:
    """Gives the scripted answers to patches (an error, or nothing: all is well), then nothing but success."""

    def __init__(self, *answers: ApiError | None, fresh: dict[str, Any] | None = None) -> None:
        self.answers, self.fresh = deque(answers), fresh
        self.patches: list[tuple[str, Any]] = []
        self.busy = self.busiest = 0

    async def patch(
        self, path: str, body: Any, *, kind: str, field_manager: str | None = None, force: bool = False
    ) -> bytes:
        self.patches.append((path, body))
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        await asyncio.sleep(0.001)
        self.busy -= 1
        answer = self.answers.popleft() if self.answers else None
        if answer is not None:
            raise answer
        return b"{}"

    async def get(self, path: str, **params: str) -> Any:
        if self.fresh is None:
            raise NotFound(404, "NotFound", path)
        return self.fresh


class Run:
    """Releases at work, and what they said."""

    def __init__(self, answers: Answers, **settings: Any) -> None:
        self.answers, self.ended = answers, list[tuple[str, Outcome, str]]()
        self.releases = ReleaseWriter(cast(Client, answers), settled=lambda *end: self.ended.append(end), **settings)

    async def drained(self) -> None:
        async with self.at_work():
            await asyncio.wait_for(self.releases.drained(), 20)

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.releases.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome, _ in self.ended]


def released(answers: Answers, node: str | None = "n1") -> Run:
    async def main() -> Run:
        run = Run(answers)
        run.releases.release(pod(), node)
        await run.drained()
        return run

    return asyncio.run(main())


def test_a_release_is_settled_once() -> None:
    run = released(Answers())
    assert run.ended == [("u", Outcome.OK, "")]
    assert run.releases.pending == 0


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("no"),
        ApiError(500, "", ""),
        ApiError(503, "", ""),
        ApiError(429, "", ""),
        ApiError(401, "", ""),
        Forbidden(403, "Forbidden", 'pods "p" is forbidden: User "u" cannot patch resource "pods" in API group ""'),
    ],
)
def test_what_may_pass_is_tried_until_it_has(error: ApiError) -> None:
    run = released(Answers(error, error, error))
    assert run.outcomes == [Outcome.OK]
    assert len(run.answers.patches) == 4


def test_a_deleted_pod_is_gone() -> None:
    assert released(Answers(NotFound(404, "", ""))).outcomes == [Outcome.GONE]


def test_another_pod_of_that_name_is_left_alone() -> None:
    run = released(Answers(FAILED_TEST, fresh=raw(uid="other")))
    assert run.ended == [("u", Outcome.GONE, "")]
    assert len(run.answers.patches) == 1


def test_a_gate_that_has_moved_is_found() -> None:
    run = released(Answers(FAILED_TEST, fresh=raw(gates=("a/b", GATE))))
    assert run.outcomes == [Outcome.OK]
    assert run.answers.patches[1][1][2] == {"op": "remove", "path": "/spec/schedulingGates/1"}


def test_a_release_whose_answer_was_lost_is_done() -> None:
    narrowed = raw(gates=(), affinity=terms({"matchFields": [NODE]}))
    assert released(Answers(Unreachable("lost"), FAILED_TEST, fresh=narrowed)).outcomes == [Outcome.OK]


def test_a_gate_that_somebody_else_has_opened_without_narrowing_is_refused() -> None:
    run = released(Answers(FAILED_TEST, fresh=raw(gates=())))
    assert run.outcomes == [Outcome.REFUSED]
    assert "not narrowed to node n1" in run.ended[0][2]


def test_a_gate_that_somebody_else_has_opened_is_as_good_where_no_node_was_named() -> None:
    assert released(Answers(FAILED_TEST, fresh=raw(gates=())), None).outcomes == [Outcome.OK]


def test_the_same_patch_refused_for_the_pod_as_it_is_now_is_final() -> None:
    run = released(Answers(Invalid(422, "Invalid", "a policy says no"), fresh=raw()))
    assert run.ended == [("u", Outcome.REFUSED, "a policy says no")]


def test_what_admission_forbids_is_refused_with_its_words() -> None:
    words = 'admission webhook "no.example.com" denied the request: no'
    run = released(Answers(Forbidden(403, "Forbidden", words)))
    assert run.ended == [("u", Outcome.REFUSED, words)]


def test_no_more_writes_than_allowed_are_on_their_way() -> None:
    async def main() -> Run:
        run = Run(Answers(), concurrency=5)
        for i in range(100):
            run.releases.release(pod(uid=str(i)), None)
        await run.drained()
        return run

    run = asyncio.run(main())
    assert run.answers.busiest == 5
    assert run.outcomes == [Outcome.OK] * 100


def test_one_pod_that_fails_for_ever_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 100.0)

    async def main() -> Run:
        run = Run(Answers(ApiError(500, "", "webhook")), concurrency=1)
        for uid in ("bad", "good"):
            run.releases.release(pod(uid=uid), None)
        async with run.at_work():
            await until(lambda: bool(run.ended), within_s=5)
        return run

    assert [uid for uid, _, _ in asyncio.run(main()).ended] == ["good"]


def test_a_release_repeated_while_it_is_pending_is_one_with_the_newest_node() -> None:
    async def main() -> Run:
        run = Run(Answers())
        run.releases.release(pod(), "old")
        run.releases.release(pod(), "n1")
        await run.drained()
        return run

    run = asyncio.run(main())
    assert [body[-1]["value"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] for _, body in run.answers.patches] == [
        [{"matchFields": [NODE]}]
    ]


# -- the window ---------------------------------------------------------------------------------


class Few(Run):
    """Releases of which at most two may wait to be bound."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers, window=Window(lambda: 0.0, floor=2))

    def sent(self) -> list[str]:
        """Names of the pods whose gate was removed, in order."""
        return [path.rpartition("/")[2] for path, _ in self.answers.patches if "/pods/" in path]

    async def settle(self) -> None:
        """Whatever may be sent now is sent, and answered."""
        async with self.at_work():
            await asyncio.sleep(0.05)


def few(*names: str, answers: Answers | None = None) -> Few:
    run = Few(answers or Answers())
    for name in names:
        run.releases.release(pod(name, uid=name), "n1")
    asyncio.run(run.settle())
    return run


def test_a_release_waits_until_one_before_it_is_bound_and_one_that_is_soon_makes_room_for_two() -> None:
    run = few("a", "b", "c", "d", "e")
    assert run.sent() == ["a", "b"]
    assert [run.releases.is_pending(name) for name in "abcde"] == [False, False, True, True, True]
    run.releases.bound("b")
    asyncio.run(run.settle())
    assert run.sent() == ["a", "b", "c", "d"]


def test_who_is_given_up_holds_up_nobody() -> None:
    run = few("a", "b", "c")
    run.releases.stop_waiting("a")
    asyncio.run(run.settle())
    assert run.sent() == ["a", "b", "c"]


def test_who_is_gone_or_has_other_gates_holds_up_nobody() -> None:
    run = Few(Answers(NotFound(404, "", "")))
    run.releases.release(pod("gone", uid="gone"), None)
    run.releases.release(pod("shut", uid="shut", gates=("a/b", GATE)), None)
    for name in ("a", "b", "c"):
        run.releases.release(pod(name, uid=name), None)
    asyncio.run(run.settle())
    assert run.sent() == ["gone", "shut", "a", "b"]


def test_a_pod_whose_binding_is_heard_before_its_release_is_answered_is_not_waited_for() -> None:
    async def main() -> Few:
        run = Few(Answers())
        run.releases.release(pod("a", uid="a"), "n1")
        run.releases.bound("a")
        await run.settle()
        return run

    run = asyncio.run(main())
    assert run.outcomes == [Outcome.OK]
    assert run.releases.waited_ms("a") is None


def test_a_gang_goes_whole_where_the_window_is_smaller() -> None:
    async def main() -> Few:
        run = Few(Answers())
        run.releases.release(pod("before", uid="before"), "n0")
        members = [(pod(f"m{i}", uid=f"m{i}"), f"n{i}") for i in range(5)]
        run.releases.release_gang("ns/d", "train", members, {str(i): f"n{i}" for i in range(5)})
        await run.settle()
        return run

    assert asyncio.run(main()).sent() == ["before", "m0", "m1", "m2", "m3", "m4"]


# -- gangs --------------------------------------------------------------------------------------


def plans(run: Run) -> list[dict[str, Any] | None]:
    texts = [body["metadata"]["annotations"][GANG_PLAN] for path, body in run.answers.patches if "/dagjobs/" in path]
    return [msgspec.json.decode(text) if text else None for text in texts]


def gang(answers: Answers, *stages: str) -> Run:
    async def main() -> Run:
        run = Run(answers)
        for stage in stages:
            members = [(pod(f"{stage}-{i}", uid=f"{stage}-{i}"), f"n{i}") for i in range(3)]
            run.releases.release_gang("ns/d", stage, members, {str(i): f"n{i}" for i in range(3)})
        await run.drained()
        return run

    return asyncio.run(main())


PLAN = {"0": "n0", "1": "n1", "2": "n2"}


def test_the_plan_is_stored_before_the_first_member_goes_and_taken_away_after_the_last() -> None:
    run = gang(Answers(), "train")
    assert ["/dagjobs/" in path for path, _ in run.answers.patches] == [True, False, False, False, True]
    assert plans(run) == [{"train": PLAN}, None]


def test_no_member_goes_while_the_plan_is_not_stored() -> None:
    run = gang(Answers(*[Unreachable("no")] * 4), "train")
    assert all("/dagjobs/" in path for path, _ in run.answers.patches[:5])
    assert run.outcomes == [Outcome.OK] * 3


def test_gangs_of_one_dagjob_share_a_write() -> None:
    assert plans(gang(Answers(), "train", "test"))[0] == {"train": PLAN, "test": PLAN}


def test_a_gang_whose_plan_is_refused_stays_gated() -> None:
    run = gang(Answers(Forbidden(403, "Forbidden", "no")), "train")
    assert run.outcomes == [Outcome.REFUSED] * 3
    assert len(run.answers.patches) == 1


def test_a_gang_whose_dagjob_is_gone_is_gone() -> None:
    assert gang(Answers(NotFound(404, "", "")), "train").outcomes == [Outcome.GONE] * 3


def test_a_member_that_is_gone_does_not_keep_the_plan() -> None:
    run = gang(Answers(None, NotFound(404, "", "")), "train")
    assert sorted(run.outcomes) == [Outcome.GONE, Outcome.OK, Outcome.OK]
    assert plans(run)[-1] is None
