"""The whole loop on the oldest Kubernetes that is supported (`make test-older`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import binaries
from devcluster.cluster import Devcluster
from tests.kubernetes.installed import Installed, a_devcluster
from tests.kubernetes.test_loop_controlplane import (
    test_a_dagjob_runs_to_its_end,
    test_a_plain_pod_and_one_without_gate_run,
    test_what_waits_says_why,
)

__all__ = ["test_a_dagjob_runs_to_its_end", "test_a_plain_pod_and_one_without_gate_run", "test_what_waits_says_why"]

pytestmark = pytest.mark.older


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    with a_devcluster(tmp_path_factory.mktemp("older"), version=binaries.OLDER, reserved=False) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def installed(older: Devcluster) -> Iterator[Installed]:
    everywhere = {"nodes": "all"}  # plain pods bring no toleration along
    running = Installed(older, overlay="older", brain=everywhere, controllers=everywhere)
    yield running
    running.stop()
    assert running.replay() > 0


def test_it_is_the_older_one(older: Devcluster) -> None:
    assert f"v{binaries.OLDER}" in older.kubectl("version", "-o", "json")
