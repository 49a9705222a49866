"""A real control plane for all tests of a worker that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Devcluster
from tests.kubernetes.fresh import Fresh
from tests.kubernetes.installed import NODES, a_devcluster
from tests.kubernetes.kubeconfigs import Plugin

# Go collects garbage whenever memory has doubled; API servers, of which there is memory enough for three, wait longer.
os.environ.setdefault("GOGC", "400")


@pytest.fixture(scope="session")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """etcd, API server, controllers, fake kubelets and 4 nodes, with our CRDs.

    Without the programs tests skip, because building them takes 10 minutes; CI builds them.
    """
    with a_devcluster(tmp_path_factory.mktemp("devcluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Another one, and what it holds before any test has seen it."""
    with a_devcluster(tmp_path_factory.mktemp("alone")) as cluster:
        yield Fresh(cluster, nodes=NODES)


@pytest.fixture(scope="module")
def alone(fresh: Fresh) -> Devcluster:
    """A control plane on which no other module has left anything: for what schedules everything that it finds."""
    fresh.restore()
    return fresh.cluster


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """A control plane of the module's own: for what kills parts of it."""
    with a_devcluster(tmp_path_factory.mktemp("anew")) as cluster:
        yield cluster


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """A credential plug-in that waits for being told what to say."""
    return Plugin(tmp_path)


@pytest.fixture
def pauseless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients do not wait between two logins."""
    monkeypatch.setattr("operators.client._LOGIN_PAUSE_S", 0)
