"""A real control plane for all tests of a worker that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.devcluster.cluster import Devcluster
from tests.kubernetes.installed import a_devcluster
from tests.kubernetes.kubeconfigs import Plugin


@pytest.fixture(scope="session")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """etcd, API server, controllers, fake kubelets and 4 nodes, with our CRDs.

    Without the programs tests skip, because building them takes 10 minutes; CI builds them.
    """
    with a_devcluster(tmp_path_factory.mktemp("devcluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """A control plane on which no other module has left anything: for what schedules everything that it finds."""
    with a_devcluster(tmp_path_factory.mktemp("alone")) as cluster:
        yield cluster


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """A credential plug-in that waits for being told what to say."""
    return Plugin(tmp_path)


@pytest.fixture
def pauseless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients do not wait between two logins."""
    monkeypatch.setattr("operators.client._LOGIN_PAUSE_S", 0)
