"""Hostile objects on a real API server: a gang plan that a tenant wrote, templates and amounts that nobody can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane

SOON = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, brain={"leaderElection": SOON})
    yield running
    running.stop()


def condition(cluster: Devcluster, space: str, job: str, kind: str) -> dict[str, Any] | None:
    """Of a DagJob, by its type."""
    conditions = cluster.get("dagjob", job, "-n", space).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), None)


def events(cluster: Devcluster, space: str, name: str) -> list[tuple[str, str]]:
    """Reasons and messages of an object's events."""
    items = cluster.get("events.events.k8s.io", "-n", space)["items"]
    return [(item["reason"], item["note"]) for item in items if item["regarding"]["name"] == name]


def runs(cluster: Devcluster, space: str, name: str) -> None:
    """A job that comes now runs to its end."""
    submit(cluster, dagjob(name, space, [stage("a", 2, 1)]))
    wait(lambda: phase(cluster, space, name) == "Succeeded")


@pytest.mark.drawn(of=2)
def test_a_gang_plan_that_a_tenant_wrote_stops_no_takeover(installed: Installed) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    submit(cluster, dagjob("gang", space, [stage("a", 4, 600, gang=True)]))
    wait(lambda: phase(cluster, space, "gang") == "Running")
    for plan in ('{"a":{"abc":"n0"}}', '{"a":{"' + "9" * 5000 + '":"n0"}}', "x"):
        cluster.kubectl("annotate", "dagjob", "gang", "-n", space, "--overwrite", f"{names.GANG_PLAN}={plan}")
        installed.brain.kill("brain")
        wait(lambda: not installed.brain.is_ready())
        installed.brain.wait_ready()
    runs(cluster, space, "after")
    cluster.kubectl("delete", "dagjob", "gang", "after", "-n", space)


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [("tolerations", "x", "tolerations"), ("nodeSelector", {"disk": 5}, "nodeSelector"), ("volumes", 7, "volumes")],
)
def test_a_template_that_nobody_can_read_is_told_on_its_dagjob_alone(
    installed: Installed, field: str, value: Any, word: str
) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    bad = dagjob("bad", space, [stage("a", 1, 1)])
    bad["spec"]["stages"][0]["template"]["spec"][field] = value
    submit(cluster, bad)
    told = wait(lambda: condition(cluster, space, "bad", "Failed"), 10)
    assert (told["status"], told["reason"]) == ("True", "Unreadable")
    assert word in told["message"]
    assert wait(lambda: events(cluster, space, "bad"), 10) == [("Failed", told["message"])]
    runs(cluster, space, "good")
    cluster.kubectl("delete", "dagjob", "bad", "good", "-n", space)


@pytest.mark.parametrize("text", ["9" * 5000, "1e99999", "-1"], ids=["digits", "exponent", "negative"])
def test_an_amount_that_no_node_has_is_refused(installed: Installed, text: str) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    bad = json.dumps(dagjob("bad", space, [stage("a", 1, 1, cpu="@")]))
    for amount in (f'"{text}"', text):
        with pytest.raises(RuntimeError):
            cluster.kubectl("create", "-f", "-", input=bad.replace('"@"', amount))
    assert installed.brain.is_ready()


def test_a_limit_of_a_queue_that_is_beyond_reading_is_told_on_the_queue(installed: Installed) -> None:
    """Kubernetes takes 1e99999 for a quantity."""
    cluster = installed.cluster
    space = cluster.namespace()
    queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "beyond"}}
    submit(cluster, queue | {"spec": {"max": {"cpu": "1e99999"}}})

    def told() -> list[str]:
        conditions = cluster.get("queue.rm-emulator.io", "beyond").get("status", {}).get("conditions", [])
        return [c["message"] for c in conditions if (c["type"], c["status"]) == ("Ready", "False")]

    assert "1e99999" in wait(told, 10)[0]
    runs(cluster, space, "good")
    cluster.kubectl("delete", "queue.rm-emulator.io", "beyond")
    cluster.kubectl("delete", "dagjob", "good", "-n", space)


def test_a_template_of_a_thousand_levels_is_nobodys_end(installed: Installed) -> None:
    cluster = installed.cluster
    space = cluster.namespace()
    bad = dagjob("deep", space, [stage("a", 1, 1)])
    bad["spec"]["stages"][0]["template"]["spec"]["x"] = "@"
    text = json.dumps(bad).replace('"@"', "[" * 3000 + "]" * 3000)
    cluster.kubectl("create", "--validate=false", "-f", "-", input=text)
    runs(cluster, space, "good")
    assert installed.brain.is_ready()
    assert installed.controllers.is_ready()
    cluster.kubectl("delete", "dagjob", "deep", "good", "-n", space)
