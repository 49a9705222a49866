"""The devcluster itself: what its fake kubelets do, what it leaves, and what it survives."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from devcluster.__main__ import main
from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import dagjob, stage, submit, wait

pytestmark = pytest.mark.controlplane


def pod(space: str, name: str, **annotations: str) -> dict[str, Any]:
    keys = {"seconds": names.RUN_SECONDS, "code": names.EXIT_CODE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": space,
            "annotations": {keys[key]: value for key, value in annotations.items()},
        },
        "spec": {"nodeName": "n0", "restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
    }


def ended(cluster: Devcluster, space: str, name: str) -> dict[str, Any]:
    def look() -> Any:
        pod = cluster.get("pod", name, "-n", space)
        return pod if pod["status"]["phase"] in ("Succeeded", "Failed") else None

    pod: dict[str, Any] = wait(look, 30)
    return pod


def test_a_pod_runs_its_seconds_although_it_is_changed_all_the_time(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, pod(space, "busy", seconds="5"))
    for beat in range(6):
        time.sleep(0.8)
        devcluster.kubectl("label", "pod", "busy", "-n", space, f"beat=b{beat}", "--overwrite")
    (state,) = (c["state"]["terminated"] for c in ended(devcluster, space, "busy")["status"]["containerStatuses"])
    began, over = (datetime.fromisoformat(state[key]) for key in ("startedAt", "finishedAt"))
    assert 4 <= (over - began).total_seconds() <= 7


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_ends_with_the_code_of_its_annotation(devcluster: Devcluster, code: str, phase: str) -> None:
    space = devcluster.namespace()
    submit(devcluster, pod(space, "ends", seconds="1", code=code))
    status = ended(devcluster, space, "ends")["status"]
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


def test_a_pod_without_seconds_runs_until_it_is_deleted(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, pod(space, "stays"))
    wait(lambda: devcluster.get("pod", "stays", "-n", space)["status"]["phase"] == "Running")
    devcluster.kubectl("delete", "pod", "stays", "-n", space, "--timeout=20s")
    assert devcluster.get("pods", "-n", space)["items"] == []


def test_what_is_read_is_what_kubectl_gets(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, pod(space, "one"), dagjob("j", space, [stage("a", 1, 1)]))
    devcluster.kubectl("label", "pod", "one", "-n", space, "shown=yes")
    for asked in (
        ("pods", "-n", space),
        ("pods", "-n", space, "-l", "shown=no"),
        ("pods", "-A", "-l", "shown=yes"),
        ("pods", "-n", space, "--field-selector=spec.nodeName=n0"),
        ("dj", "j", "-n", space),
        ("queues.rm-emulator.io",),
        ("crds",),
        ("service", "kubernetes"),
    ):
        kubectls = json.loads(devcluster.kubectl("get", *asked, "-o", "json"))
        assert identities(devcluster.get(*asked)) == identities(kubectls)
    with pytest.raises(RuntimeError, match="not found"):
        devcluster.get("pod", "nobody", "-n", space)
    with pytest.raises(RuntimeError, match="no kind 'things'"):
        devcluster.get("things")


def identities(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    """Of one object or of a list; which fields they have, too."""
    items = answer.get("items", [answer])
    return sorted((item["apiVersion"], item["kind"], item["metadata"]["uid"], *sorted(item)) for item in items)


def test_who_has_no_role_is_denied(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    devcluster.kubectl("create", "serviceaccount", "nobody", "-n", space)
    allowed = ["auth", "can-i", "list", "pods", "-n", space, f"--as=system:serviceaccount:{space}:nobody"]
    with pytest.raises(RuntimeError):
        devcluster.kubectl(*allowed)


def test_a_killed_api_server_comes_back_with_everything(devcluster: Devcluster) -> None:
    space = devcluster.namespace()
    submit(devcluster, pod(space, "kept"))
    devcluster.kill("apiserver")
    devcluster.start("apiserver")
    assert devcluster.get("pod", "kept", "-n", space)["metadata"]["name"] == "kept"


@pytest.mark.drawn(of=2)
def test_up_and_down_by_the_command_leave_nothing_behind(
    devcluster: Devcluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del devcluster  # without the programs this skips, as the others do
    folder = tmp_path / "own"

    def command(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["devcluster", *words, "--dir", str(folder)])
        return main()

    assert command("up", "--nodes", "2") == 0
    kubeconfig = Path(capsys.readouterr().out.strip().removeprefix("export KUBECONFIG="))
    cluster = Devcluster(folder)
    assert kubeconfig == cluster.kubeconfig
    assert len(json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]) == 2
    assert command("up", "--nodes", "3") == 0, "a second `up` adds what is missing"
    assert len(cluster.get("nodes")["items"]) == 3
    assert command("status") == 0
    pids = [pid for pid in cluster.status().values() if pid is not None]
    assert command("down") == 0
    assert not folder.exists()
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)
