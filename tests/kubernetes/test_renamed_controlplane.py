"""An installation under another namespace and prefix, by an overlay above ours: it runs, and keeps no old name."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.account import Account
from tests.kubernetes.installed import Installed, dagjob, phase, programs, renamed, stage, submit, wait
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.controlplane

NAMESPACE, PREFIX = "elsewhere", "acme-"
BRAIN, CONTROLLERS = f"{PREFIX}rm-brain", f"{PREFIX}rm-controllers"


def kustomized(folder: Path) -> str:
    return subprocess.run(
        [programs()["kubectl"], "kustomize", folder], capture_output=True, text=True, check=True
    ).stdout


def rendered(folder: Path, overlay: str) -> str:
    return kustomized(renamed(folder, overlay, NAMESPACE, PREFIX))


@pytest.mark.parametrize("overlay", ["dev", "production", "older"])
def test_the_old_namespace_stands_nowhere(tmp_path: Path, overlay: str) -> None:
    assert names.NAMESPACE not in rendered(tmp_path, overlay)


def shown_on_the_page(folder: Path, word: str) -> str:
    """What kustomize makes of the overlay with this word."""
    (shown,) = (
        block.text
        for block in blocks("docs/platform/install.md")
        if block.text.startswith("apiVersion: kustomize") and word in block.text
    )
    (folder / "rm-emulator").symlink_to(ROOT)
    above = folder / "above"
    above.mkdir()
    (above / "kustomization.yaml").write_text(shown)
    return kustomized(above)


def test_the_overlay_that_the_page_shows_renders(tmp_path: Path) -> None:
    text = shown_on_the_page(tmp_path, "namePrefix")
    assert names.NAMESPACE not in text
    assert "namespace: batch" in text


def test_the_components_that_the_page_shows_render(tmp_path: Path) -> None:
    text = shown_on_the_page(tmp_path, "components")
    assert "kind: Certificate\n" in text
    assert "kind: ServiceMonitor\n" in text


def values(item: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string of an object, with its key; not labels, what selects them, and what a CRD accepts."""
    if isinstance(item, dict):
        for inner, value in item.items():
            if inner not in ("labels", "matchLabels", "selector", "podSelector", "labelSelector", "enum"):
                yield from values(value, inner)
    elif isinstance(item, list):
        for value in item:
            yield from values(value, key)
    elif isinstance(item, str):
        yield key, item


@pytest.mark.parametrize("overlay", ["dev", "production", "older"])
def test_no_object_is_called_by_its_old_name(tmp_path: Path, overlay: str) -> None:
    objects = [one for one in yaml.safe_load_all(rendered(tmp_path, overlay)) if one]
    old = {name.removeprefix(PREFIX) for one in objects if (name := one["metadata"]["name"]).startswith(PREFIX)}
    called = {(key, value) for one in objects for key, value in values(one) if value in old}
    assert called == set()


@pytest.mark.parametrize("kind", ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"])
def test_every_renamed_policy_is_bound(tmp_path: Path, kind: str) -> None:
    objects = [one for one in yaml.safe_load_all(rendered(tmp_path, "production")) if one]
    policies = {one["metadata"]["name"] for one in objects if one["kind"] == kind}
    assert policies
    assert {one["spec"]["policyName"] for one in objects if one["kind"] == f"{kind}Binding"} == policies


# -- it runs ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    """Production, with its two replicas and TLS."""
    found = Installed(alone, overlay="production", namespace=NAMESPACE, prefix=PREFIX)
    yield found
    found.stop()


@pytest.mark.drawn(of=4)
def test_a_dagjob_and_a_plain_pod_run(alone: Devcluster, installed: Installed) -> None:
    space = alone.namespace("renamed")
    submit(alone, dagjob("job", space, [stage("a", 4, 1), stage("b", 2, 1, parents=["a"], gang=True)]), a_pod(space))
    wait(lambda: phase(alone, space, "job") == "Succeeded", 60)
    wait(lambda: alone.get("pod", "plain", "-n", space)["status"].get("phase") == "Succeeded", 60)


def test_every_lease_is_in_its_own_namespace(alone: Devcluster, installed: Installed) -> None:
    leases = alone.get("leases", "-A")["items"]
    ours = {one["metadata"]["name"]: one["metadata"]["namespace"] for one in leases}
    wanted = (names.BRAIN_LEASE, names.CONTROLLERS_LEASE, "rm-scheduler-leader")
    assert {name: ours.get(name) for name in wanted} == dict.fromkeys(wanted, NAMESPACE)


def test_kube_scheduler_shows_its_metrics_without_a_role_in_kube_system(installed: Installed) -> None:
    port = installed.brain.replicas[0].ports[10259]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(f"https://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert b"scheduler_" in answer.read()


# -- and its accounts may no more than ours -----------------------------------------------------


def a_pod(space: str, name: str = "plain", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": space, "labels": {names.QUEUE_LABEL: "default"}}
    meta["annotations"] = {names.RUN_SECONDS: "1"}
    spec = {"schedulerName": names.SCHEDULER, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def system_pod(alone: Devcluster, installed: Installed) -> Iterator[str]:
    pod = a_pod("kube-system", "dns", schedulerName="default-scheduler")
    del pod["metadata"]["labels"]
    submit(alone, pod)
    yield "/api/v1/namespaces/kube-system/pods/dns"
    alone.kubectl("delete", "pod", "dns", "-n", "kube-system", "--now")


@pytest.fixture
def brain(alone: Devcluster, installed: Installed) -> Account:
    return Account(alone, BRAIN, NAMESPACE)


@pytest.fixture
def controllers(alone: Devcluster, installed: Installed) -> Account:
    return Account(alone, CONTROLLERS, NAMESPACE)


def test_its_brain_deletes_no_pod_of_the_system(brain: Account, system_pod: str) -> None:
    assert "rm-brain may delete no pods" in brain.refusal(lambda client: client.delete(system_pod))


def test_its_brain_changes_no_image_of_the_system(brain: Account, system_pod: str) -> None:
    patch = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
    assert "rm-brain may change" in brain.patch_refusal(system_pod, patch)


@pytest.mark.parametrize("where", ["kube-system", "default", NAMESPACE])
def test_its_controllers_make_no_privileged_pod(controllers: Account, where: str) -> None:
    inside = {"name": "main", "image": "busybox", "securityContext": {"privileged": True}}
    pod = a_pod(where, "evil", hostPID=True, containers=[inside])
    said = controllers.refusal(lambda client: client.create(f"/api/v1/namespaces/{where}/pods", pod))
    # Pod Security of its own namespace comes first there.
    assert re.search(r"rm-controllers may create and delete no pods but|violates PodSecurity", said)


@pytest.mark.parametrize("where", ["kube-system", NAMESPACE])
def test_its_brain_binds_nothing_of_the_system_and_its_own_namespace(brain: Account, where: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n0"}
    meta = {"name": "any", "namespace": where}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    said = brain.refusal(lambda client: client.create(f"/api/v1/namespaces/{where}/pods/any/binding", body))
    assert "rm-brain may bind no pods of" in said


def test_gates_are_opened_by_its_brain_and_by_nobody_else(
    alone: Devcluster, installed: Installed, brain: Account, controllers: Account
) -> None:
    space = alone.namespace("gates")
    too_large = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1000"}}}
    submit(alone, a_pod(space, "waits", containers=[too_large]))
    opening = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    for name in ("edit", "view"):
        role = f"--clusterrole=system:aggregate-to-{name}"
        alone.kubectl("create", "rolebinding", name, role, "--user=alice", "-n", space)
    with pytest.raises(RuntimeError, match="removed by brain, and by who has the verb ungate on queue 'default'"):
        alone.kubectl("patch", "pod", "waits", "-n", space, "--as=alice", "--type=json", "-p", json.dumps(opening))
    path = f"/api/v1/namespaces/{space}/pods/waits"
    assert "cannot patch" in controllers.patch_refusal(path, opening)
    brain.patch(path, opening)
