"""Two brains are replaced, drained and found by the label of the leader, as kubectl sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = [pytest.mark.controlplane, pytest.mark.drawn(of=2)]

BRAINS = ("-n", names.NAMESPACE, "-l", "app=rm-brain")


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, overlay="production")
    yield running
    running.stop()


def rolled_out(cluster: Devcluster) -> None:
    """Raises RuntimeError after a minute and a half."""
    cluster.kubectl("rollout", "status", "deployment/rm-brain", "-n", names.NAMESPACE, "--timeout=90s")


def brains(cluster: Devcluster, *labels: str) -> set[str]:
    selector = ",".join(("app=rm-brain", *labels))
    return {pod["metadata"]["name"] for pod in cluster.get("pods", "-n", names.NAMESPACE, "-l", selector)["items"]}


def leaders(cluster: Devcluster) -> set[str]:
    return brains(cluster, f"{names.LEADER_LABEL}=true")


def holder(cluster: Devcluster) -> str:
    lease = cluster.get("leases", names.BRAIN_LEASE, "-n", names.NAMESPACE)
    return str(lease["spec"]["holderIdentity"]).rpartition("_")[0]


def test_all_brains_are_ready_and_the_holder_of_the_lease_has_the_label(installed: Installed) -> None:
    rolled_out(installed.cluster)
    assert len(brains(installed.cluster)) == 2
    wait(lambda: leaders(installed.cluster) == {holder(installed.cluster)})


def test_the_label_follows_the_lease_when_the_leader_is_killed(installed: Installed) -> None:
    cluster = installed.cluster
    wait(lambda: installed.brain.leader() is not None)
    before = leaders(cluster)
    installed.brain.kill("brain", installed.brain.leader() or 0)
    wait(lambda: leaders(cluster) and leaders(cluster) != before)
    assert leaders(cluster) == {holder(cluster)}
    rolled_out(cluster)


def test_a_restart_replaces_all_brains_and_ends(installed: Installed) -> None:
    cluster = installed.cluster
    before = brains(cluster)
    cluster.kubectl("rollout", "restart", "deployment/rm-brain", "-n", names.NAMESPACE)
    rolled_out(cluster)
    wait(lambda: len(brains(cluster)) == 2)
    assert not brains(cluster) & before
    wait(lambda: leaders(cluster) == {holder(cluster)})


def test_jobs_run_after_a_restart(installed: Installed) -> None:
    space = installed.cluster.namespace("rollout")
    submit(installed.cluster, dagjob("after", space, [stage("a", 4, 1)]))
    wait(lambda: phase(installed.cluster, space, "after") == "Succeeded", 60)


def test_one_brain_may_be_evicted_and_two_may_not(installed: Installed) -> None:
    cluster = installed.cluster
    rolled_out(cluster)

    def allowed() -> int:
        return int(cluster.get("pdb", "rm-brain", "-n", names.NAMESPACE)["status"]["disruptionsAllowed"])

    wait(lambda: allowed() == 1)
