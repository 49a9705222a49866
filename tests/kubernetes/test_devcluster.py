"""What a devcluster promises without being started: versions, processes that are found again."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from devcluster import binaries
from devcluster.cluster import LOWEST_PORT, free_ports
from devcluster.deployments import Probe
from devcluster.processes import Process

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Process:
    process = Process(tmp_path, "sleeper")
    process.start(SLEEP)
    return process


@pytest.mark.parametrize(
    ("module", "package", "version"),
    [
        ("kubernetes", "k8s.io/kubernetes", binaries.MADE_FOR),
        (f"kubernetes-{binaries.OLDER.rpartition('.')[0]}", "k8s.io/kubernetes", binaries.OLDER),
        (f"kubernetes-{binaries.NEWER.rpartition('.')[0]}", "k8s.io/kubernetes", binaries.NEWER),
        ("etcd", "go.etcd.io/etcd/server/v3", binaries._ETCD),
        ("kwok", "sigs.k8s.io/kwok", binaries._KWOK),
        ("helm", "helm.sh/helm/v4", binaries._HELM),
    ],
)
def test_the_tool_modules_pin_the_versions_that_the_code_names(module: str, package: str, version: str) -> None:
    text = (binaries.MODULES / module / "go.mod").read_text()
    assert re.search(rf"{re.escape(package)} v{re.escape(version)}$", text, re.MULTILINE)


@pytest.mark.parametrize("version", [binaries.OLDER, binaries.NEWER])
def test_the_makefile_builds_the_versions_that_the_code_names(version: str) -> None:
    makefile = Path(__file__).parents[2] / "Makefile"
    assert f"build --version {version}\n" in makefile.read_text()


def program(folder: Path, says: str) -> None:
    file = folder / "kube-apiserver"
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "is_taken"),
    [("Kubernetes v1.36.3", True), ("Kubernetes v1.36.30", False), ("Kubernetes v1.35.4", False), ("", False)],
)
def test_an_installed_program_is_taken_only_if_it_is_of_our_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, is_taken: bool
) -> None:
    program(tmp_path, says)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert (binaries.find("kube-apiserver", "1.36.3") is not None) is is_taken


def test_a_missing_program_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(binaries.NoBinaries, match="make controlplane"):
        binaries.need(build=False)
    with pytest.raises(binaries.NoBinaries, match=r"https://go\.dev/dl"):
        binaries.need(build=True)


def test_programs_that_are_all_there_need_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*binaries.PROGRAMS, binaries.HELM):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert not binaries.can_build()
    binaries.build_all()


def test_a_process_is_found_by_another_that_looks_in_the_folder(sleeper: Process, tmp_path: Path) -> None:
    other = Process(tmp_path, "sleeper")
    assert other.pid() == sleeper.pid() is not None
    other.kill()
    assert sleeper.pid() is None


def test_a_pid_that_was_given_to_another_process_is_not_ours(sleeper: Process, tmp_path: Path) -> None:
    sleeper.kill()
    (tmp_path / "sleeper.pid").write_text(f"{os.getpid()} 1\n")
    assert Process(tmp_path, "sleeper").pid() is None


def test_a_process_does_not_start_twice(sleeper: Process) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        sleeper.start(SLEEP)
    sleeper.kill()


def test_one_that_does_not_hear_is_killed_after_its_grace(tmp_path: Path) -> None:
    deaf = Process(tmp_path, "deaf")
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    deaf.start([sys.executable, "-c", code])
    while "on" not in deaf.tail():
        time.sleep(0.02)
    deaf.stop(signal.SIGTERM, grace_s=0.2)
    assert deaf.pid() is None


def test_a_probe_counts_only_failures_in_a_row() -> None:
    probe = Probe("http://127.0.0.1:1/healthz", threshold=2)
    assert not probe.ask()
    assert not probe.has_failed
    assert not probe.ask()
    assert probe.has_failed


def test_ports_are_none_that_an_outgoing_connection_may_take() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(LOWEST_PORT <= port < 32_768 for port in ports)


def test_a_port_in_use_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        taken, (free,) = used.getsockname()[1], free_ports(1)
        monkeypatch.setattr("random.sample", lambda numbers, count: [taken, free])
        assert free_ports(1) == [free]
