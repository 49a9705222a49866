"""The reference of the scenario file is what the schema says, and its examples are accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.engine.profile import profiles
from rm_emulator.results.chart import charts
from rm_emulator.scenario import listing, reference
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load
from rm_emulator.scenario.reference import Key
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry

PAGE = Path(__file__).parents[2] / "docs" / "scenario.md"
#: Every mapping that other keys stand in.
BASE = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: base}
spec:
  cluster:
    nodes: [{capacity: {cpu: 1}, taints: [{key: a}]}]
    architecture: ARCHITECTURE
    startup: {kind: gamma, mean: 1s}
    sizes: {minimum: {cpu: 1}}
    faults:
      schedule: [{at: 1m}]
      nodes: {per_1000_node_days: 1, repair: 1h, lemons: {share: 0.1, times: 2}}
      checkpoints: {every: 1h}
      tasks: {stragglers: {share: 0.1, times: 2}}
      restarts: [{at: 1m, for: 1s}]
  queues: [{name: a}]
  workload: WORKLOAD
  policies: [{kind: gs, predictor: {kind: oracle}}]
  report: {charts: [{kind: jct}]}
"""
WORKLOADS = {
    "synthetic": "{kind: synthetic, preset: google11-like}",
    "tpch": "{kind: tpch}",
    "dags": "{kind: dags}",
    "lachesis": "{kind: lachesis}",
    "mixed": "{kind: mixed}",
    "production_dags": "{kind: production_dags}",
    "trace": "{kind: trace, path: a}",
    "jobs": """
    kind: jobs
    jobs:
    - name: a
      wishes: {prefer: [{}]}
      stages:
      - name: a
        demand: {cpu: 1}
        parents: [{stage: b}]
        running: [{node: n}]
        duration: {by_node: {n: 1s}}
        places: {terms: [[{key: a, operator: Exists}]], tolerations: [{}]}
    history: [{name: a, ago: 1d, stages: [{tasks: 1, duration: 1s}]}]
""",
}
ARCHITECTURES = {
    "central": "{kind: central, paths: [{kinds: [service]}]}",
    "two_level": "{kind: two_level, schedulers: [{name: a, policy: {kind: fifo}}]}",
    "shared_state": "{kind: shared_state, schedulers: [{name: a}]}",
    "decentralised": "{kind: decentralised}",
}
KEYS = {(section.title, key.path): key for section in reference.sections() for key in section.keys}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario for each kind of workload and architecture, and the plug-in that an example names."""
    folder = tmp_path_factory.mktemp("bases")
    (folder / "my_policy.py").write_text("")
    kinds = [(kind, workload, ARCHITECTURES["central"]) for kind, workload in WORKLOADS.items()]
    kinds += [(kind, WORKLOADS["synthetic"], other) for kind, other in ARCHITECTURES.items()]
    for kind, workload, architecture in kinds:
        text = BASE.replace("WORKLOAD", workload).replace("ARCHITECTURE", architecture)
        (folder / f"{kind}.yaml").write_text(text)
    return folder


def test_the_page_is_what_the_schema_says() -> None:
    assert PAGE.read_text("utf-8") == reference.markdown(), "write it anew: rm-emulator schema --markdown"


def test_every_key_has_a_meaning_and_an_example() -> None:
    lacking = [where for where, key in KEYS.items() if not key.meaning or (key.example is None and key.path != "spec")]
    assert lacking == []


@pytest.mark.parametrize("where", [where for where in KEYS if "." in where[1]], ids=" ".join)
def test_an_example_is_accepted_at_its_place(where: tuple[str, str], bases: Path) -> None:
    key: Key = KEYS[where]
    kinds = [kind for kind in (*WORKLOADS, *ARCHITECTURES) if where[0].endswith(f"kind: {kind}")]
    kind = (*kinds, "two_level" if ".architecture" in where[0] else "synthetic")[0]
    load(bases / f"{kind}.yaml", overrides=[f"{key.path.replace('[]', '[0]')}={key.example}"])


def test_the_smallest_file_is_good(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert block is not None
    (tmp_path / "smallest.yaml").write_text(block[1])
    assert len(check(load(tmp_path / "smallest.yaml")).workload.jobs) == 50


@pytest.mark.parametrize(
    ("registry", "name"),
    [(registry, each.name) for registry in (policies, predictors, placers, charts) for each in registry],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_the_example_of_a_registered_name_is_accepted(registry: Registry[Any], name: str, bases: Path) -> None:
    example = listing.entry(registry, name)["example"]
    assert f"kind: {name}" in example
    where = "report.charts" if registry is charts else "policies"
    load(bases / "jobs.yaml", overrides=[f"spec.{where}=[{example}]"])


@pytest.mark.parametrize("name", profiles.names)
def test_the_example_of_a_profile_is_accepted(name: str, bases: Path) -> None:
    example = listing.entry(profiles, name)["example"]
    assert f"kind: {name}" in example
    load(bases / "jobs.yaml", overrides=[f"spec.cluster.profile={example}"])
