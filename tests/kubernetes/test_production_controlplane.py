"""The overlay `production` as it is: two replicas of each part, by mutual TLS, through a Service."""

from __future__ import annotations

import pytest

from devcluster.cluster import Devcluster
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


@pytest.mark.drawn(of=2)
def test_jobs_run_through_the_production_overlay_before_and_after_its_leaders_die(alone: Devcluster) -> None:
    space = alone.namespace("production")
    installed = Installed(alone, overlay="production")
    try:
        submit(alone, dagjob("before", space, [stage("a", 6, 1)]))
        wait(lambda: phase(alone, space, "before") == "Succeeded", 60)
        for part, name in ((installed.brain, "brain"), (installed.controllers, "controllers")):
            part.kill(name, part.leader() or 0)
        submit(alone, dagjob("after", space, [stage("a", 6, 1, gang=True)]))
        wait(lambda: phase(alone, space, "after") == "Succeeded", 90)
    finally:
        installed.stop()
    assert installed.replay(cut=True) > 0
