"""The Helm chart renders what kustomize renders, and says what is wrong with a value."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import chart
from devcluster.binaries import HELM
from operators.controllers.config import load_controllers
from operators.extender.config import load_brain
from rm_emulator.version import __version__
from schedulers.objects import names
from tests.kubernetes.installed import program, renamed

Objects = dict[tuple[str, str], dict[str, Any]]

#: What a chart adds: a restart where settings change, and jobs that stay when a release goes.
ADDED = ("rm-emulator.io/settings", "helm.sh/resource-policy")


def template(*options: str, namespace: str = names.NAMESPACE) -> subprocess.CompletedProcess[str]:
    command = [str(program(HELM)), "template", "rm-emulator", str(chart.FOLDER), "-n", namespace, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


@cache
def rendered(*options: str, namespace: str = names.NAMESPACE) -> Objects:
    done = template(*options, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return by_name(done.stdout)


@cache
def kustomized(folder: Path) -> Objects:
    command = [str(program("kubectl")), "kustomize", str(folder)]
    return by_name(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def by_name(text: str) -> Objects:
    objects = [plain(one) for one in chart.documents(text)]
    found = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(found) == len(objects)
    return found


def plain(one: dict[str, Any]) -> dict[str, Any]:
    """Settings as what they say, whatever their text; without what a chart adds, and without empty lists.

    kustomize gives a namespace to policies of admission, which have none; the API server ignores it.
    """
    if "AdmissionPolicy" in one["kind"] and one["metadata"].get("namespace") == "elsewhere":
        del one["metadata"]["namespace"]
    if one["kind"] == "ConfigMap":
        one["data"] = {name: yaml.safe_load(text) for name, text in one["data"].items()}
    for meta in (one["metadata"], one.get("spec", {}).get("template", {}).get("metadata", {})):
        notes = {key: value for key, value in meta.pop("annotations", {}).items() if key not in ADDED}
        if notes:
            meta["annotations"] = notes
    return dict(filled(one))


def filled(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: filled(value) for key, value in item.items() if key != "imagePullSecrets" or value}
    return [filled(value) for value in item] if isinstance(item, list) else item


def differences(chart: Objects, overlay: Objects) -> dict[tuple[str, str], Any]:
    return {
        key: (chart.get(key), overlay.get(key))
        for key in chart.keys() | overlay.keys()
        if chart.get(key) != overlay.get(key)
    }


# -- the same as kustomize ----------------------------------------------------------------------


def test_the_chart_is_what_the_overlays_make_it() -> None:
    made = chart.made(program("kubectl"))
    kept = {name: (chart.FOLDER / name).read_text() for name in made}
    assert kept == made, "run `python -m devcluster chart`"
    marked = {str(f.relative_to(chart.FOLDER)) for f in chart.FOLDER.rglob("*.yaml") if "Made by" in f.read_text()[:20]}
    assert marked <= made.keys()


@pytest.mark.parametrize("overlay", chart.OVERLAYS)
@pytest.mark.nightly
def test_the_chart_renders_the_objects_of_an_overlay(tmp_path: Path, overlay: str) -> None:
    wanted = kustomized(renamed(tmp_path, overlay))
    ours = wanted | {}
    ours.pop(("Namespace", names.NAMESPACE))  # which Helm makes, or has
    assert differences(rendered("--set", f"overlay={overlay}"), ours) == {}


@pytest.mark.parametrize("overlay", chart.OVERLAYS)
@pytest.mark.nightly
def test_another_namespace_and_a_prefix_are_those_of_kustomize(tmp_path: Path, overlay: str) -> None:
    wanted = kustomized(renamed(tmp_path, overlay, "elsewhere", "acme-"))
    options = ("--set", f"overlay={overlay},namespace=elsewhere,namePrefix=acme-")
    assert differences(rendered(*options, namespace="default"), wanted) == {}


@pytest.mark.parametrize(("component", "value"), chart.COMPONENTS.items())
@pytest.mark.nightly
def test_a_component_is_turned_on_by_a_value(tmp_path: Path, component: str, value: str) -> None:
    folder = Path(os.path.relpath(chart.MANIFESTS, tmp_path.resolve()))
    above = {
        "resources": [str(folder / "overlays" / "production")],
        "components": [str(folder / "components" / component)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(above))
    wanted = kustomized(tmp_path)
    wanted.pop(("Namespace", names.NAMESPACE))
    assert differences(rendered("--set", f"overlay=production,{value}=true"), wanted) == {}


# -- values -------------------------------------------------------------------------------------


def changed(*options: str) -> Objects:
    """Objects that are other than by default."""
    default, found = rendered(), rendered(*options)
    return {key: found.get(key, {}) for key in default.keys() | found.keys() if found.get(key) != default.get(key)}


def settings(objects: Mapping[tuple[str, str], Any], name: str) -> dict[str, Any]:
    return dict(objects["ConfigMap", name]["data"]["config.yaml"])


@pytest.mark.nightly
def test_without_network_policies_nothing_else_changes() -> None:
    policies = {key for key in rendered() if key[0] == "NetworkPolicy"}
    assert policies
    assert changed("--set", "networkPolicy.enabled=false") == {key: {} for key in policies}


@pytest.mark.nightly
def test_the_image_is_that_of_every_container_of_ours() -> None:
    found = changed("--set", "overlay=production,image.repository=r/rm,image.tag=v9")
    specs = [found["Deployment", name]["spec"]["template"]["spec"] for name in ("rm-brain", "rm-controllers")]
    containers = [c for spec in specs for c in [*spec.get("initContainers", ()), *spec["containers"]]]
    assert {c["image"] for c in containers if c["name"] != "kube-scheduler"} == {"r/rm:v9"}


@pytest.mark.nightly
def test_an_image_may_need_a_secret() -> None:
    found = changed("--set", "imagePullSecrets[0].name=registry")
    for name in ("rm-brain", "rm-controllers"):
        assert found["Deployment", name]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.nightly
def test_replicas_and_resources_are_those_of_the_values() -> None:
    given = {
        "brain": {"replicas": 3, "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}},
        "overlay": "production",
    }
    found = changed("--set-json", f"brain={json.dumps(given['brain'])}", "--set", "overlay=production")
    spec = found["Deployment", "rm-brain"]["spec"]
    (brain,) = (c for c in spec["template"]["spec"]["containers"] if c["name"] == "brain")
    assert spec["replicas"] == 3
    assert brain["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}


@pytest.mark.nightly
def test_another_policy_is_one_that_brain_accepts(tmp_path: Path) -> None:
    given = "brain.settings.policy.kind=drf,brain.settings.predictor=null,brain.settings.nodes=all"
    found = rendered("--set", given)
    (tmp_path / "brain.yaml").write_text(yaml.safe_dump(settings(found, "rm-brain")))
    (tmp_path / "controllers.yaml").write_text(yaml.safe_dump(settings(found, "rm-controllers")))
    brain = load_brain(tmp_path / "brain.yaml")
    assert (brain.policy, brain.predictor, brain.nodes) == ({"kind": "drf"}, None, "all")
    assert load_controllers(tmp_path / "controllers.yaml").nodes == "all"


@pytest.mark.nightly
def test_a_setting_of_the_overlay_may_be_replaced() -> None:
    options = ("--set-json", 'brain.settings.storage={"dir": "/var/lib/rm-emulator", "log": "hash"}')
    assert settings(rendered(*options), "rm-brain")["storage"] == {"dir": "/var/lib/rm-emulator", "log": "hash"}


@pytest.mark.nightly
def test_other_settings_are_other_pods() -> None:
    def note(*options: str) -> str:
        found = re.findall(r'rm-emulator.io/settings: "(\w+)"', template(*options).stdout)
        assert len(set(found)) == 1
        return str(found[0])

    assert note() != note("--set", "brain.settings.cycle=60ms")
    assert note() == note("--set", "image.tag=v9")


@pytest.mark.nightly
def test_queues_are_hooks_until_their_kind_is_there() -> None:
    given = ("--set-json", 'queues=[{"name": "data", "weight": 3}, {"name": "etl", "parent": "data"}]')
    first, later = rendered(*given), rendered(*given, "--api-versions", f"{names.API_VERSION}/Queue")
    assert [first["Queue", name]["spec"] for name in ("data", "etl")] == [{"weight": 3}, {"parent": "data"}]
    assert first["Queue", "data"]["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    assert later["Queue", "data"]["metadata"] == {"name": "data"}


REFUSED = {
    "overlay=prod": r"'/overlay': value must be one of 'dev', 'production', 'older'",
    "overlai=dev": r"additional properties 'overlai' not allowed",
    "brain.replicas=0": r"'/brain/replicas': minimum: got 0, want 1",
    "brain.replicas=2": r"brain\.replicas is 2: more than one brain needs overlay production",
    "brain.settings.policy.kind=drff": r"'/brain/settings/policy/kind': value must be one of .*'drf'",
    "brain.settings.policy.kind=yarn": r"'/brain/settings/policy/kind': value must be one of ",
    "brain.settings.cycle=50": r"'/brain/settings/cycle': got number, want string",
    "brain.settings.cycel=50ms": r"'/brain/settings': additional properties 'cycel' not allowed",
    "brain.settings.extender.port=1": r"'/brain/settings': additional properties 'extender' not allowed",
    "brain.settings.nodes=none": r"'/brain/settings/nodes': value must be one of 'all', 'reserved'",
    "namePrefix=Acme": r"'/namePrefix': 'Acme' does not match pattern",
    "queues[0].weight=1": r"'/queues/0': missing property 'name'",
    "queues[0].name=a,queues[0].wait=1": r"'/queues/0': additional properties 'wait' not allowed",
    "queues[0].name=A": r"'/queues/0/name': 'A' does not match pattern",
}


@pytest.mark.parametrize("given", REFUSED)
@pytest.mark.nightly
def test_a_value_that_is_wrong_is_refused_in_one_sentence(given: str) -> None:
    done = template("--set", given)
    assert done.returncode != 0
    assert done.stdout == ""
    assert re.search(REFUSED[given], done.stderr), done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith(("- at", "Error"))]) <= 2, done.stderr


@pytest.mark.nightly
def test_helm_finds_nothing_to_mend() -> None:
    command = [str(program(HELM)), "lint", "--strict", str(chart.FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_is_of_the_version_of_the_image() -> None:
    shown = yaml.safe_load((chart.FOLDER / "Chart.yaml").read_text())
    assert (shown["version"], shown["appVersion"]) == (__version__, __version__)
