"""What is said on pods and DagJobs of a real API server, beside what others say there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from operators.client import Client
from operators.extender.reports import ReportWriter
from schedulers.objects.names import API_VERSION, GATE, WAITING_CONDITION
from schedulers.objects.pod import Condition, Pod

pytestmark = pytest.mark.controlplane


class Here:
    """A namespace with one gated pod and one DagJob."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.dagjobs = f"/apis/{API_VERSION}/namespaces/{namespace}/dagjobs"

    async def pod(self) -> Pod:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"schedulingGates": [{"name": GATE}], "containers": [{"name": "main", "image": "none"}]},
        }
        return msgspec.convert(await self.client.create(self.path, body), Pod)

    async def fresh(self) -> Pod:
        return msgspec.convert(await self.client.get(f"{self.path}/p"), Pod)

    async def dagjob(self) -> str:
        template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
        body = {
            "apiVersion": API_VERSION,
            "kind": "DagJob",
            "metadata": {"name": "d"},
            "spec": {"queue": "default", "stages": [{"name": "only", "tasks": 1, "template": template}]},
        }
        return str((await self.client.create(self.dagjobs, body))["metadata"]["uid"])

    async def status(self) -> dict[str, Any]:
        return dict((await self.client.get(f"{self.dagjobs}/d"))["status"])

    async def waiting(self) -> Condition | None:
        conditions = (await self.fresh()).status.conditions
        return next((each for each in conditions if each.type == WAITING_CONDITION), None)

    async def written(self, say: Callable[[ReportWriter], None], conditions: ReportWriter | None = None) -> None:
        conditions = conditions or ReportWriter(self.client, per_second=1000)
        task = asyncio.ensure_future(conditions.run())
        say(conditions)
        async with asyncio.timeout(10):
            while conditions.pending:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def here(devcluster: Any, main: Callable[[Here], Awaitable[None]]) -> None:
    async def run() -> None:
        async with devcluster.client() as client:
            await main(Here(client, devcluster.namespace()))

    asyncio.run(run())


def test_a_pod_says_why_it_waits(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pod = await place.pod()
        await place.written(lambda conditions: conditions.report_pod(pod, "NoRoom", "no node has 4 CPUs free"))
        condition = await place.waiting()
        assert condition is not None
        assert (condition.status, condition.reason, condition.message) == ("True", "NoRoom", "no node has 4 CPUs free")

    here(devcluster, main)


def test_conditions_of_others_stay(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pod = await place.pod()
        theirs = {"type": "example.com/Checked", "status": "True", "reason": "Fine", "message": "theirs"}
        body = {"status": {"conditions": [theirs]}}
        await place.client.patch(f"{place.path}/p/status", body, kind="strategic", field_manager="them")
        before = {each.type for each in (await place.fresh()).status.conditions}
        await place.written(lambda conditions: conditions.report_pod(pod, "NoRoom", "x"))
        await place.written(lambda conditions: conditions.report_pod(pod, "NoRoom", "y"))
        after = (await place.fresh()).status.conditions
        assert {each.type for each in after} == before | {WAITING_CONDITION}
        assert [each.message for each in after if each.type == "example.com/Checked"] == ["theirs"]

    here(devcluster, main)


def test_the_time_of_the_change_stays_while_only_the_reason_changes(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pod = await place.pod()
        await place.written(lambda conditions: conditions.report_pod(pod, "NoRoom", "x"))
        first = await place.waiting()
        await asyncio.sleep(1.1)
        seen = await place.fresh()
        await place.written(lambda conditions: conditions.report_pod(seen, "BehindOthers", "y"))
        second = await place.waiting()
        assert first is not None
        assert second is not None
        assert (first.lastTransitionTime, second.reason) == (second.lastTransitionTime, "BehindOthers")

    here(devcluster, main)


def test_a_released_pod_waits_no_longer(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pod = await place.pod()
        await place.written(lambda conditions: conditions.report_pod(pod, "NoRoom", "x"))
        seen = await place.fresh()
        await place.written(lambda conditions: conditions.report_released(seen, "n1"))
        condition = await place.waiting()
        assert condition is not None
        assert (condition.status, condition.reason, condition.message) == ("False", "Released", "released to node n1")

    here(devcluster, main)


def test_a_pod_that_is_gone_stops_nothing(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pod, uid = await place.pod(), await place.dagjob()
        await place.client.delete(f"{place.path}/p", gracePeriodSeconds="0")
        say = {"reason": "NoRoom", "message": "x", "position": 1, "estimate_s": None}

        def both(conditions: ReportWriter) -> None:
            conditions.report_pod(pod, "NoRoom", "x")
            conditions.report_dagjob(f"{place.namespace}/d", uid=uid, **say)  # type: ignore[arg-type]

        await place.written(both)
        assert (await place.status())["reason"] == "NoRoom"

    here(devcluster, main)


def test_another_pod_of_that_name_is_told_nothing(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pod = await place.pod()
        await place.client.delete(f"{place.path}/p", gracePeriodSeconds="0")
        await place.pod()
        await place.written(lambda conditions: conditions.report_pod(pod, "NoRoom", "x"))
        assert await place.waiting() is None

    here(devcluster, main)


def test_a_dagjobs_other_fields_stay(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        uid = await place.dagjob()
        await place.client.patch(f"{place.dagjobs}/d/status", {"status": {"phase": "Pending"}}, kind="merge")
        key, conditions = f"{place.namespace}/d", ReportWriter(place.client, per_second=1000)

        def say(reason: str, position: int | None) -> Callable[[ReportWriter], None]:
            return lambda to: to.report_dagjob(
                key, uid=uid, reason=reason, message=reason and "why", position=position, estimate_s=12.5
            )

        await place.written(say("NoRoom", 3), conditions)
        said = {"phase": "Pending", "reason": "NoRoom", "message": "why", "position": 3, "estimateSeconds": 12.5}
        assert (await place.status()).items() >= said.items()
        await place.written(say("", None), conditions)
        after = await place.status()
        assert after["phase"] == "Pending"
        assert not {"reason", "message", "position"} & {key for key, value in after.items() if value}

    here(devcluster, main)
