"""Leadership with a real API server; what happens when is in test_lease.py, in exact times."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from operators.client import Client
from operators.lease import JITTER, Lease
from tests.kubernetes.store import nothing, until

pytestmark = pytest.mark.controlplane

DURATION, RENEW, RETRY = 3.0, 2.0, 0.3


def candidate(client: Client, namespace: str, name: str) -> Lease:
    return Lease(
        client, name="rm-brain", namespace=namespace, identity=name, duration_s=DURATION, renew_s=RENEW, retry_s=RETRY
    )


def campaign(lease: Lease) -> asyncio.Future[None]:
    return asyncio.ensure_future(lease.run(nothing, nothing))


async def stop(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_of_two_candidates_one_leads(devcluster: Any) -> None:
    async def main() -> None:
        async with devcluster.client() as client:
            namespace = devcluster.namespace()
            leases = [candidate(client, namespace, name) for name in "ab"]
            tasks = [campaign(lease) for lease in leases]
            await until(lambda: any(lease.leads for lease in leases))
            await asyncio.sleep(2 * DURATION)
            assert sum(lease.leads for lease in leases) == 1
            await stop(*tasks)

    asyncio.run(main())


def test_a_killed_holder_is_replaced_within_the_leases_duration_and_two_pauses(devcluster: Any) -> None:
    async def main() -> None:
        async with devcluster.client() as client:
            namespace, dying = devcluster.namespace(), devcluster.client()
            first, second = candidate(dying, namespace, "a"), candidate(client, namespace, "b")
            campaigns = [campaign(first)]
            await until(lambda: first.leads)
            campaigns.append(campaign(second))
            await asyncio.sleep(1.0)
            # A process that is killed writes nothing any more, and nobody tells it.
            await dying.close()
            dying._url = lambda path: f"http://127.0.0.1:9{path}"
            killed = time.monotonic()
            await until(lambda: second.leads)
            assert not first.leads
            assert time.monotonic() - killed <= DURATION + 2 * RETRY * (1 + JITTER) + 0.5
            await stop(*campaigns)
            await dying.close()

    asyncio.run(main())


def test_a_clean_stop_hands_over_at_once(devcluster: Any) -> None:
    async def main() -> None:
        async with devcluster.client() as client:
            namespace = devcluster.namespace()
            first, second = candidate(client, namespace, "a"), candidate(client, namespace, "b")
            leading = campaign(first)
            await until(lambda: first.leads)
            standing_by = campaign(second)
            await asyncio.sleep(1.0)
            stopped = time.monotonic()
            await stop(leading)
            await until(lambda: second.leads)
            assert time.monotonic() - stopped < DURATION - 1
            assert second.term > first.term
            await stop(standing_by)

    asyncio.run(main())


def test_kubectl_shows_who_holds_it_and_since_when(devcluster: Any) -> None:
    async def main() -> str:
        async with devcluster.client() as client:
            namespace = devcluster.namespace()
            lease = candidate(client, namespace, "brain-0")
            task = campaign(lease)
            await until(lambda: lease.leads)
            shown = await client.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/rm-brain")
            await stop(task)
            with contextlib.suppress(KeyError):
                return str(shown["spec"]["holderIdentity"])
        return ""

    assert asyncio.run(main()).startswith("brain-0_")
