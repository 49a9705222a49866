"""What is installed, looked at without a cluster."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Counter, Gauge, Histogram

from forecaster.config import load_forecaster
from operators import metrics
from operators.controllers.config import load_controllers
from operators.extender.config import BrainConfig, load_brain
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.version import __version__
from schedulers.core.policy import policies
from schedulers.objects import names
from tests.kubernetes.promql import TARGET, queries, selectors

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
#: Without the chart, whose templates are no YAML before Helm has filled them in.
FILES = [path for path in sorted(MANIFESTS.rglob("*.yaml")) if not path.is_relative_to(MANIFESTS / "helm")]
CONFIGS = [MANIFESTS / "base" / "config.yaml", MANIFESTS / "overlays" / "production" / "config.yaml"]


def read(file: Path) -> list[dict[str, Any]]:
    # By the parser in C: tests are collected in every worker, and the one in Python takes a second and a half there.
    return [one for one in yaml.load_all(file.read_text(), yaml.CSafeLoader) if one]


def objects(kind: str, folder: str = "") -> Iterator[dict[str, Any]]:
    for file in (file for file in FILES if file.is_relative_to(MANIFESTS / folder)):
        yield from (one for one in read(file) if one.get("kind") == kind)


def by_name(kind: str, folder: str = "base") -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects(kind, folder)}


def config_of(file: Path, name: str) -> str:
    configmaps = {one["metadata"]["name"]: one for one in read(file)}
    return str(configmaps[name]["data"]["config.yaml"])


def brain_of(file: Path, folder: Path) -> BrainConfig:
    path = folder / "config.yaml"
    path.write_text(config_of(file, "rm-brain"))
    return load_brain(path)


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, deployment in [*by_name("Deployment").items(), *by_name("Deployment", "components").items()]:
        spec = deployment["spec"]["template"]["spec"]
        for container in spec["containers"]:
            yield f"{name}/{container['name']}", spec, container


# -- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(MANIFESTS)))
def test_a_file_is_yaml(file: Path) -> None:
    assert read(file)


@pytest.mark.parametrize("file", sorted(MANIFESTS.rglob("kustomization.yaml")), ids=lambda file: file.parent.name)
def test_a_kustomization_names_every_file_beside_it(file: Path) -> None:
    (kustomization,) = read(file)
    listed = {name for name in kustomization.get("resources", ()) if name.endswith(".yaml")}
    listed |= {patch["path"] for patch in kustomization.get("patches", ()) if "path" in patch}
    listed |= set(kustomization.get("configurations", ()))
    listed |= {name.rpartition("=")[2] for one in kustomization.get("configMapGenerator", ()) for name in one["files"]}
    files = {path.name for path in file.parent.iterdir() if path.suffix in (".yaml", ".json")}
    assert listed == files - {"kustomization.yaml"}


def test_no_manifest_holds_a_secret() -> None:
    assert not list(objects("Secret"))


# -- rights -------------------------------------------------------------------------------------


def rules() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("Role", "ClusterRole"):
        for name, role in [*by_name(kind).items(), *by_name(kind, "components").items()]:
            for rule in role["rules"]:
                yield f"{kind} {name}", rule


@pytest.mark.parametrize(("role", "rule"), list(rules()))
def test_a_rule_has_no_wildcard(role: str, rule: dict[str, Any]) -> None:
    assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]


@pytest.mark.parametrize(("role", "rule"), list(rules()))
def test_a_rule_lets_nobody_rise(role: str, rule: dict[str, Any]) -> None:
    assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
    assert not {"secrets", "serviceaccounts/token", "pods/exec", "nodes/proxy"} & set(rule["resources"])


def test_nobody_is_cluster_admin() -> None:
    bound = {binding["roleRef"]["name"] for kind in ("RoleBinding", "ClusterRoleBinding") for binding in objects(kind)}
    assert bound == {
        "rm-brain",
        "rm-controllers",
        "rm-forecaster",
        "system:kube-scheduler",
        "system:volume-scheduler",
    }


def test_only_our_accounts_are_bound() -> None:
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in objects(kind):
            for subject in binding["subjects"]:
                assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", names.NAMESPACE)
                assert subject["name"] in ("rm-brain", "rm-controllers", "rm-forecaster")


# -- pods ---------------------------------------------------------------------------------------


def test_the_namespace_enforces_restricted_pods() -> None:
    labels = by_name("Namespace")[names.NAMESPACE]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize(("name", "spec", "container"), list(containers()), ids=lambda value: str(value)[:30])
def test_a_container_is_restricted(name: str, spec: dict[str, Any], container: dict[str, Any]) -> None:
    pod, own = spec["securityContext"], container["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] == 65532
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


@pytest.mark.parametrize(("name", "spec", "container"), list(containers()), ids=lambda value: str(value)[:30])
def test_a_container_has_probes_and_limits(name: str, spec: dict[str, Any], container: dict[str, Any]) -> None:
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    named = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in named
    assert not container["image"].endswith(":latest")


def test_our_pods_are_not_scheduled_by_ourselves() -> None:
    for deployment in by_name("Deployment").values():
        spec = deployment["spec"]["template"]["spec"]
        assert "schedulerName" not in spec
        assert spec["priorityClassName"] == "system-cluster-critical"


def test_images_run_as_the_user_of_the_manifests() -> None:
    assert "USER 65532:65532" in (MANIFESTS / "Dockerfile").read_text()


# -- configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.parent.name)
def test_brain_accepts_its_configuration(file: Path, tmp_path: Path) -> None:
    config = brain_of(file, tmp_path)
    assert config.management.port == 8081
    assert config.storage.log == "full"


def test_the_controllers_accept_their_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(config_of(CONFIGS[0], "rm-controllers"))
    assert load_controllers(path).management.port == 8082


def test_the_forecaster_accepts_its_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(config_of(MANIFESTS / "components" / "forecaster" / "config.yaml", "rm-forecaster"))
    assert load_forecaster(path).management.port == 8083


def test_the_forecaster_may_read_its_memory_list_jobs_and_write_their_status_alone() -> None:
    granted = {
        (kind, *rule["apiGroups"], *rule["resources"], *rule["verbs"])
        for kind in ("Role", "ClusterRole")
        for rule in by_name(kind, "components")["rm-forecaster"]["rules"]
    }
    assert granted == {
        ("Role", "", "configmaps", "get"),
        ("ClusterRole", "parts.rm-emulator.io", "forecaster", "act-as"),
        ("ClusterRole", names.GROUP, "dagjobs", "get", "list"),
        ("ClusterRole", names.GROUP, "dagjobs/status", "patch"),
    }


def test_the_forecaster_gives_way_and_never_runs_twice() -> None:
    spec = by_name("Deployment", "components")["rm-forecaster"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert "priorityClassName" not in spec["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["cpu"] == "1"
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    (apart,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    brain = by_name("Deployment")["rm-brain"]["spec"]["template"]["metadata"]["labels"]
    assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= brain.items()


def test_without_tls_the_verbs_are_on_loopback(tmp_path: Path) -> None:
    extender = brain_of(CONFIGS[0], tmp_path).extender
    assert (extender.address, extender.tls) == ("127.0.0.1", None)


def test_in_production_the_verbs_want_a_client_certificate(tmp_path: Path) -> None:
    tls = brain_of(CONFIGS[1], tmp_path).extender.tls
    assert tls is not None
    assert tls.client_names == ("rm-scheduler",)
    assert tls.client_ca_file == "/etc/rm/tls/ca.crt"


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.parent.name)
def test_kube_scheduler_calls_where_brain_listens(file: Path, tmp_path: Path) -> None:
    brain, scheduler = brain_of(file, tmp_path), yaml.safe_load(config_of(file, "rm-scheduler"))
    (extender,) = scheduler["extenders"]
    scheme = "https" if brain.extender.tls is not None else "http"
    assert re.fullmatch(rf"{scheme}://(127\.0\.0\.1|SERVICE):{brain.extender.port}/v1", extender["urlPrefix"])
    assert extender["httpTimeout"] == f"{brain.extender.http_timeout // 1000}s"


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.parent.name)
def test_kube_scheduler_is_set_up_for_brain(file: Path) -> None:
    scheduler = yaml.safe_load(config_of(file, "rm-scheduler"))
    no_preemption = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    assert scheduler["profiles"] == [{"schedulerName": names.SCHEDULER, "plugins": no_preemption}]
    assert scheduler["percentageOfNodesToScore"] == 100
    assert scheduler["clientConnection"] == {"qps": 1000, "burst": 2000}
    (extender,) = scheduler["extenders"]
    assert extender["nodeCacheCapable"] is True
    assert extender["ignorable"] is False
    assert extender["weight"] == 1
    assert {key: verb for key, verb in extender.items() if key.endswith("Verb")} == {
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
    }


def test_with_tls_kube_scheduler_verifies_brain() -> None:
    (extender,) = yaml.safe_load(config_of(CONFIGS[1], "rm-scheduler"))["extenders"]
    assert extender["enableHTTPS"] is True
    assert extender["tlsConfig"]["caFile"]
    assert "insecure" not in extender["tlsConfig"]


def certificates(folder: Path, *options: str) -> None:
    """Run certificates.sh with a kubectl that keeps what it is given, in FOLDER/NAMESPACE/SECRET."""
    stub = folder / "kubectl"
    stub.write_text(f'#!/bin/sh\nmkdir -p "{folder}/$6/$4"\nfor f in *.crt; do cp $f "{folder}/$6/$4/"; done\n')
    stub.chmod(0o755)
    script = MANIFESTS / "overlays" / "production" / "certificates.sh"
    environment = {"PATH": "/usr/bin:/bin", "KUBECTL": str(stub)}
    subprocess.run([script, *options], env=environment, check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize(
    ("options", "namespace"),
    [
        (["--print"], "rm-system"),
        (["--namespace", "other", "--print"], "other"),
        (["--print", "--namespace=other"], "other"),
    ],
)
def test_certificates_are_made_for_brain_and_its_client(tmp_path: Path, options: list[str], namespace: str) -> None:
    certificates(tmp_path, *options)
    for secret, pair, purpose, name in (
        ("rm-brain-tls", "brain", "sslserver", "DNS:rm-brain,"),
        ("rm-scheduler-tls", "scheduler", "sslclient", "DNS:rm-scheduler"),
    ):
        folder = tmp_path / namespace / secret
        asked: list[str | Path] = [
            "openssl",
            "verify",
            "-purpose",
            purpose,
            "-CAfile",
            folder / "ca.crt",
            folder / f"{pair}.crt",
        ]
        subprocess.run(asked, check=True, capture_output=True)
        asked = ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", folder / f"{pair}.crt"]
        assert name in subprocess.run(asked, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("options", [["--namspace", "other"], ["--namespace"]])
def test_certificates_are_not_made_for_options_that_there_are_not(tmp_path: Path, options: list[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        certificates(tmp_path, *options)
    assert [path.name for path in tmp_path.iterdir()] == ["kubectl"]


def test_kube_scheduler_expects_the_name_that_the_certificate_has() -> None:
    (extender,) = yaml.safe_load(config_of(CONFIGS[1], "rm-scheduler"))["extenders"]
    script = (MANIFESTS / "overlays" / "production" / "certificates.sh").read_text()
    assert f"DNS:{extender['tlsConfig']['serverName']}," in script


# -- policies -----------------------------------------------------------------------------------


#: Policies whose parameters an API server may not have found yet; what they let in, `Intake.check_queue` sets aside.
BRAIN_ASKS_TOO = {"rm-queue-namespaces", "rm-queue-namespaces-of-pods"}


@pytest.mark.parametrize("kind", ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"])
def test_every_policy_is_bound_and_fails_closed(kind: str) -> None:
    policies = {**by_name(kind), **by_name(kind, "components")}
    bound = {
        one["spec"]["policyName"] for folder in ("base", "components") for one in objects(f"{kind}Binding", folder)
    }
    assert bound == set(policies)
    open_ = {name for name, one in policies.items() if one["spec"]["failurePolicy"] != "Fail"}
    assert open_ == (BRAIN_ASKS_TOO if kind.startswith("Validating") else set())


def test_the_policies_use_our_names() -> None:
    text = "".join((MANIFESTS / "base" / f"{file}.yaml").read_text() for file in ("policies", "tenants"))
    for name in (names.GATE, names.SCHEDULER, names.WAITING_CONDITION, names.GANG_PLAN, names.RESERVED_NODE):
        assert name in text


@pytest.mark.parametrize("file", ["policies", "tenants"])
def test_no_policy_names_an_account_or_a_namespace_of_ours(file: str) -> None:
    text = (MANIFESTS / "base" / f"{file}.yaml").read_text()
    assert names.NAMESPACE not in text
    assert not re.search(r"userInfo\.username [!=]= 's", text)


def test_no_configmap_has_the_name_of_a_lease() -> None:
    """Or kustomize would prefix the name in resourceNames, and the process would not know."""
    leases = {name for _, rule in rules() if "leases" in rule["resources"] for name in rule.get("resourceNames", ())}
    assert {names.BRAIN_LEASE, names.CONTROLLERS_LEASE} <= leases
    assert not leases & set(by_name("ConfigMap"))


# -- monitoring ---------------------------------------------------------------------------------


def shown() -> set[str]:
    """Names of all time series that a process of ours shows."""
    exposed = set()
    for metric in vars(metrics).values():
        if isinstance(metric, Counter):
            exposed.add(f"{metric._name}_total")
        elif isinstance(metric, Histogram):
            exposed |= {f"{metric._name}_{part}" for part in ("bucket", "sum", "count")}
        elif hasattr(metric, "_name"):
            exposed.add(metric._name)
    return exposed


def ours(name: str) -> Counter | Histogram | Gauge:
    """The metric of ours that has a time series of this name."""
    found = (m for m in vars(metrics).values() if isinstance(m, Counter | Histogram | Gauge))
    return next(m for m in found if m._name == re.sub("_(total|bucket|sum|count)$", "", name))


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_a_query_asks_for_metrics_labels_and_values_that_there_are(query: str) -> None:
    asked = selectors(query)
    assert asked
    for selector in asked:
        if not selector.metric.startswith("rm_"):
            assert selector.metric in ("process_resident_memory_bytes", "process_start_time_seconds")
            continue
        assert selector.metric in shown()
        metric = ours(selector.metric)
        assert selector.labels <= {*metric._labelnames, "le", *TARGET}
        for label, values in selector.values.items():
            assert label in TARGET or all(re.search(rf"\b{value}\b", metric._documentation) for value in values)


def test_selectors_are_found_in_all_forms_of_a_query() -> None:
    query = 'sum by (le, verb) (rate(rm_a_bucket{job="rm-brain", outcome=~"x|y"}[5m])) / rm_b > 0 or vector(0)'
    first, second = selectors(query)
    assert (first.metric, second.metric) == ("rm_a_bucket", "rm_b")
    assert first.labels == {"job", "outcome", "le", "verb"}
    assert first.values == {"job": ["rm-brain"], "outcome": ["x", "y"]}


def test_an_alert_says_what_to_do() -> None:
    (alerts,) = read(MANIFESTS / "monitoring" / "alerts.yaml")
    for rule in alerts["groups"][0]["rules"]:
        assert {"summary", "description"} == set(rule["annotations"])
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_the_dashboard_shows_every_metric_of_ours() -> None:
    board = json.loads((MANIFESTS / "monitoring" / "dashboard.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel.get("targets", ())
        for name in re.findall(r"\brm_\w+", target["expr"])
    }
    assert asked <= shown()
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in shown() if name.startswith("rm_")}
    assert families == {re.sub("_(bucket|sum|count)$", "", name) for name in asked}


def test_no_two_panels_overlap() -> None:
    board = json.loads((MANIFESTS / "monitoring" / "dashboard.json").read_text())
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))


# -- documentation ------------------------------------------------------------------------------

PAGES = [ROOT / "docs" / "kubernetes.md", *sorted((ROOT / "docs" / "platform").glob("*.md"))]
GUIDE = "\n".join(page.read_text() for page in PAGES)


def test_the_guide_names_every_policy_and_alert() -> None:
    (alerts,) = read(MANIFESTS / "monitoring" / "alerts.yaml")
    named = {rule["alert"] for rule in alerts["groups"][0]["rules"]}
    named |= {*by_name("ValidatingAdmissionPolicy"), *by_name("MutatingAdmissionPolicy")}
    named |= {*by_name("ValidatingAdmissionPolicy", "components")}
    assert {name for name in named if f"`{name}`" not in GUIDE} == set()


def test_the_configuration_in_the_guide_is_accepted(tmp_path: Path) -> None:
    shown = next(block for block in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if block.startswith("policy:"))
    path = tmp_path / "config.yaml"
    path.write_text(shown)
    load_brain(path)


def test_the_tree_in_the_guide_is_the_sample() -> None:
    assert (MANIFESTS / "samples" / "queues.yaml").read_text() in GUIDE


def test_policies_in_the_guide_are_accepted(tmp_path: Path) -> None:
    shown = re.findall(r"`(policy: \{kind: .*?\})`", GUIDE)
    assert len(shown) == 2
    for policy in shown:
        (tmp_path / "brain.yaml").write_text(f"{policy}\nextender: {{tls: null}}\n")
        load_brain(tmp_path / "brain.yaml")
    listed = re.search(r"^policy: .*# (.*)$", GUIDE, re.MULTILINE)
    assert listed is not None
    here = {entry.name for entry in policies if "kubernetes" in entry.worlds}
    assert set(listed.group(1).split(", ")) == here


def test_the_files_that_the_guide_names_exist() -> None:
    for name in set(re.findall(r"manifests/[\w./-]+\w", GUIDE)):
        assert (ROOT / name).exists(), name


# -- a Dask cluster in a queue --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dask-scheduler", "dask-worker"])
def test_the_pods_of_a_dask_cluster_join_a_queue_and_are_restricted(name: str) -> None:
    template = by_name("Deployment", "dask")[name]["spec"]["template"]
    spec = template["spec"]
    assert (spec["schedulerName"], template["metadata"]["labels"][names.QUEUE_LABEL]) == ("rm-scheduler", "default")
    assert spec["securityContext"]["runAsNonRoot"]
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["image"] == f"ghcr.io/rm-emulator/rm-emulator:{__version__}-dask"


def test_a_dask_worker_of_the_manifests_has_a_thread_and_finds_its_scheduler() -> None:
    (container,) = by_name("Deployment", "dask")["dask-worker"]["spec"]["template"]["spec"]["containers"]
    (service,) = objects("Service", "dask")
    address = f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert container["command"][-1] == address
    assert container["args"][:3] == ["--nthreads", "1", "--no-nanny"]


def test_the_emulator_plays_a_dask_cluster_as_services(tmp_path: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 16, memory: 64Gi, pods: 99}}\n"
    queue = "apiVersion: rm-emulator.io/v1alpha1\nkind: Queue\nmetadata: {name: default}\nspec: {}\n"
    batch = (MANIFESTS / "samples/batch-job.yaml").read_text().replace("analytics", "default")
    cluster = (MANIFESTS / "dask/cluster.yaml").read_text()
    (tmp_path / "all.yaml").write_text("---\n".join([node, queue, batch, cluster]))
    jobs = check(load(tmp_path / "all.yaml")).workload.jobs
    assert {entry.job.queue for entry in jobs} == {"default"}
    assert sum(entry.job.kind == "service" for entry in jobs) >= 2


# -- samples ------------------------------------------------------------------------------------


def test_samples_fit_four_nodes_of_eight_cpu() -> None:
    for job in objects("DagJob", "samples"):
        for stage in job["spec"]["stages"]:
            (container,) = stage["template"]["spec"]["containers"]
            cpu = int(container["resources"]["requests"]["cpu"])
            at_once = stage.get("tasks", 1) if stage.get("gang") else 1
            assert cpu * at_once <= 4 * 8
            assert cpu <= 8


def test_samples_name_queues_that_are_among_them() -> None:
    queues = {queue["metadata"]["name"] for queue in objects("Queue", "samples")}
    assert {job["spec"]["queue"] for job in objects("DagJob", "samples")} <= queues
