"""One real control plane for all tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from operators.devcluster import binaries
from operators.devcluster.cluster import Devcluster
from tests.kubernetes.installed import MANIFESTS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them in one worker, so that there is one control plane."""
    for item in items:
        if item.get_closest_marker("controlplane") or item.get_closest_marker("chaos"):
            item.add_marker(pytest.mark.xdist_group("controlplane"))


@pytest.fixture(scope="session")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """etcd, API server, controllers, fake kubelets and 4 nodes, with our CRDs. CI builds what is missing."""
    ci = os.environ.get("CI") == "true"
    if binaries.missing() and not ci:
        pytest.skip(f"no control plane: `make controlplane` builds {', '.join(binaries.missing())} (needs Go 1.26)")
    cluster = Devcluster(tmp_path_factory.mktemp("devcluster"), build=ci)
    try:
        cluster.up(nodes=4)
        cluster.apply(MANIFESTS / "crds")
        cluster.kubectl(
            "wait", "--for=condition=Established", "crd/dagjobs.rm-emulator.io", "crd/queues.rm-emulator.io"
        )
        yield cluster
    finally:
        cluster.remove()
