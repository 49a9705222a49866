"""Releases against a real API server: what it accepts, and what else it leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from operators.client import Client
from operators.extender.releases import Outcome, ReleaseWriter, is_narrowed
from schedulers.objects.names import API_VERSION, GANG_PLAN, GATE, RESERVED_NODE
from schedulers.objects.pod import Pod
from tests.kubernetes.store import until

pytestmark = pytest.mark.controlplane

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
ZONE_B = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
FIELD = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["broken"]}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


FORMS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "empty": {},
    "between pods": {"podAntiAffinity": {}},
    "empty node affinity": {"nodeAffinity": {}},
    "preference": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": ZONE_A}]}},
    "one term": required(ZONE_A),
    "two terms": required(ZONE_A, ZONE_B),
    "fields": required(FIELD),
    "both": required({**ZONE_A, **FIELD}),
    "a term that matches nothing": required({}, ZONE_A),
}


class Here:
    """A namespace of a cluster, releases at work in it, and how they ended."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.ended: list[tuple[str, Outcome, str]] = []
        self.releases = ReleaseWriter(client, settled=lambda *end: self.ended.append(end))

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome, _ in self.ended]

    def path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods{f'/{name}' if name else ''}"

    async def pod(self, name: str = "p", *, gates: tuple[str, ...] = (GATE,), owner: Any = None, **spec: Any) -> Pod:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [owner] if owner else []},
            "spec": {
                "schedulerName": "nobody",
                "schedulingGates": [{"name": gate} for gate in gates],
                "containers": [{"name": "main", "image": "none"}],
                **spec,
            },
        }
        return msgspec.convert(await self.client.create(self.path(), body), Pod)

    async def fresh(self, name: str = "p") -> Pod:
        return msgspec.convert(await self.client.get(self.path(name)), Pod)

    async def delete(self, name: str = "p") -> None:
        await self.client.delete(self.path(name), gracePeriodSeconds="0")


def here(devcluster: Any, main: Callable[[Here], Awaitable[None]]) -> None:
    async def run() -> None:
        async with devcluster.client() as client:
            place = Here(client, devcluster.namespace())
            task = asyncio.ensure_future(place.releases.run())
            try:
                await main(place)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_affinity_is_narrowed_and_released_at_once(devcluster: Any, form: str) -> None:
    async def main(place: Here) -> None:
        before = await place.pod(affinity=FORMS[form])
        place.releases.release(before, "n1")
        await place.releases.drained()
        after = await place.fresh()
        assert place.outcomes == [Outcome.OK]
        assert not after.is_gated
        assert is_narrowed(after, "n1")

    here(devcluster, main)


def test_what_a_pod_required_before_it_still_requires(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        place.releases.release(await place.pod(affinity=required(ZONE_A, ZONE_B)), "n1")
        await place.releases.drained()
        selector = (await place.client.get(place.path("p")))["spec"]["affinity"]["nodeAffinity"][REQUIRED]
        assert [term["matchExpressions"] for term in selector["nodeSelectorTerms"]] == [
            ZONE_A["matchExpressions"],
            ZONE_B["matchExpressions"],
        ]

    here(devcluster, main)


@pytest.mark.parametrize("gates", [("a/b", GATE), (GATE, "a/b"), ("a/b", GATE, "c/d")])
def test_foreign_gates_stay(devcluster: Any, gates: tuple[str, ...]) -> None:
    async def main(place: Here) -> None:
        place.releases.release(await place.pod(gates=gates), "n1")
        await place.releases.drained()
        assert [gate.name for gate in (await place.fresh()).spec.schedulingGates] == [g for g in gates if g != GATE]

    here(devcluster, main)


def test_a_gate_that_has_moved_since_it_was_seen_is_found(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod(gates=("a/b", GATE))
        remove = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
        await place.client.patch(place.path("p"), remove, kind="json")
        place.releases.release(seen, "n1")
        await place.releases.drained()
        assert (await place.fresh()).spec.schedulingGates == ()

    here(devcluster, main)


def test_an_affinity_that_has_appeared_since_the_pod_was_seen_is_not_overwritten(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        wish = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": ZONE_A}]}}
        await place.client.patch(place.path("p"), [{"op": "add", "path": "/spec/affinity", "value": wish}], kind="json")
        place.releases.release(seen, "n1")
        await place.releases.drained()
        assert place.outcomes == [Outcome.OK]
        affinity = (await place.client.get(place.path("p")))["spec"]["affinity"]["nodeAffinity"]
        assert affinity[PREFERRED] == wish["nodeAffinity"][PREFERRED]
        assert is_narrowed(await place.fresh(), "n1")

    here(devcluster, main)


def test_a_pod_deleted_meanwhile_is_gone(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        await place.delete()
        place.releases.release(seen, "n1")
        await place.releases.drained()
        assert place.outcomes == [Outcome.GONE]

    here(devcluster, main)


def test_another_pod_of_the_same_name_keeps_its_gate(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        await place.delete()
        await place.pod()
        place.releases.release(seen, "n1")
        await place.releases.drained()
        assert place.outcomes == [Outcome.GONE]
        assert (await place.fresh()).is_gated

    here(devcluster, main)


def test_a_release_made_before_is_done(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        for _ in range(2):
            place.releases.release(seen, "n1")
            await place.releases.drained()
        assert place.outcomes == [Outcome.OK, Outcome.OK]

    here(devcluster, main)


def test_a_pod_released_to_another_node_stays_there(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        for node in ("n1", "n2"):
            place.releases.release(seen, node)
            await place.releases.drained()
        assert place.outcomes == [Outcome.OK, Outcome.REFUSED]
        assert (await place.fresh()).narrowed_to == "n1"

    here(devcluster, main)


def test_without_a_node_only_the_gate_goes(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        place.releases.release(await place.pod(affinity=required(ZONE_A)), None)
        await place.releases.drained()
        after = await place.fresh()
        assert not after.is_gated
        assert after.narrowed_to is None

    here(devcluster, main)


def test_a_quota_that_is_used_up_does_not_hinder_a_release(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none-left"},
            "spec": {"hard": {"pods": "0", "requests.cpu": "0"}},
        }
        await place.client.create(f"/api/v1/namespaces/{place.namespace}/resourcequotas", quota)
        place.releases.release(seen, "n1")
        await place.releases.drained()
        assert place.outcomes == [Outcome.OK]

    here(devcluster, main)


def test_a_woken_pod_tells_which_node_is_reserved_for_it(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod(gates=())
        place.releases.wake(seen, "n1")

        async def told() -> str | None:
            return (await place.fresh()).metadata.annotations.get(RESERVED_NODE)

        for _ in range(200):
            if await told() == "n1":
                return
            await asyncio.sleep(0.02)
        raise AssertionError("no annotation within 4 s")

    here(devcluster, main)


def test_many_releases_all_arrive(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        pods = await asyncio.gather(*(place.pod(f"p{i}") for i in range(100)))
        for i, each in enumerate(pods):
            place.releases.release(each, f"n{i}")
        await place.releases.drained()
        listed = await place.client.get(place.path())
        assert {pod.metadata.name: pod.narrowed_to for pod in msgspec.convert(listed["items"], list[Pod])} == {
            f"p{i}": f"n{i}" for i in range(100)
        }

    here(devcluster, main)


# -- gangs --------------------------------------------------------------------------------------


async def dagjob(place: Here) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    body = {
        "apiVersion": API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": "d"},
        "spec": {"queue": "default", "stages": [{"name": "train", "tasks": 3, "gang": True, "template": template}]},
    }
    made: dict[str, Any] = await place.client.create(f"/apis/{API_VERSION}/namespaces/{place.namespace}/dagjobs", body)
    return made


def owner(job: dict[str, Any]) -> dict[str, Any]:
    uid = job["metadata"]["uid"]
    return {"apiVersion": API_VERSION, "kind": "DagJob", "name": "d", "uid": uid, "controller": True}


PLAN = {"0": "n0", "1": "n1", "2": "n2"}


def test_a_gangs_plan_stands_on_its_dagjob_before_the_first_gate_opens(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        job = await dagjob(place)
        members = [(await place.pod(f"p{i}", owner=owner(job)), f"n{i}") for i in range(3)]
        path = f"/apis/{API_VERSION}/namespaces/{place.namespace}/dagjobs/d"
        patch: Any = place.client.patch
        plans = []

        async def patched(where: str, *args: Any, **how: Any) -> bytes:
            if "/pods/" in where:
                plans.append((await place.client.get(path))["metadata"]["annotations"][GANG_PLAN])
            return bytes(await patch(where, *args, **how))

        place.client.patch = patched  # type: ignore[method-assign]
        place.releases.release_gang(f"{place.namespace}/d", "train", members, PLAN)
        await place.releases.drained()
        assert [msgspec.json.decode(plan) for plan in plans] == [{"train": PLAN}] * 3
        assert [(await place.fresh(f"p{i}")).narrowed_to for i in range(3)] == ["n0", "n1", "n2"]
        assert GANG_PLAN not in (await place.client.get(path))["metadata"].get("annotations", {})

    here(devcluster, main)


def test_a_gang_of_a_dagjob_that_was_replaced_stays_gated(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        old = {**owner(await dagjob(place)), "uid": "00000000-0000-0000-0000-000000000000"}
        members = [(await place.pod(f"p{i}", owner=old), f"n{i}") for i in range(3)]
        place.releases.release_gang(f"{place.namespace}/d", "train", members, PLAN)
        await place.releases.drained()
        assert place.outcomes == [Outcome.GONE] * 3

    here(devcluster, main)


def test_releases_wait_for_an_api_server_that_restarts(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        seen = await place.pod()
        devcluster.stop("apiserver")
        place.releases.release(seen, "n1")
        await asyncio.sleep(0.5)
        assert place.releases.pending == 1
        await asyncio.to_thread(devcluster.start, "apiserver")
        await until(lambda: place.releases.pending == 0, within_s=60)
        assert (await place.fresh()).narrowed_to == "n1"

    here(devcluster, main)
