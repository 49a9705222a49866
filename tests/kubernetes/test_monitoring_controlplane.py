"""Rules and dashboard ask for what the running processes show."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from devcluster.cluster import Devcluster
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait
from tests.kubernetes.promql import TARGET, queries, selectors

pytestmark = pytest.mark.controlplane

PORTS = {"rm-brain": 8081, "rm-controllers": 8082}


@pytest.fixture(scope="module")
def shown(alone: Devcluster) -> Iterator[Mapping[str, Mapping[str, set[str]]]]:
    """By process: the names of its time series, with the labels of each; after a job has run."""
    installed = Installed(alone)
    try:
        space = alone.namespace()
        submit(alone, dagjob("job", space, [stage("a", 4, 1), stage("b", 2, 1, parents=["a"], gang=True)]))
        wait(lambda: phase(alone, space, "job") == "Succeeded")
        parts = {"rm-brain": installed.brain, "rm-controllers": installed.controllers}
        yield {name: scrape(parts[name].replicas[0].ports[port]) for name, port in PORTS.items()}
    finally:
        installed.stop()


def scrape(port: int) -> dict[str, set[str]]:
    """What `/metrics` shows; a family without samples yet has a name and no labels."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        for suffix in suffixes:
            found.setdefault(family.name + suffix, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("query", sorted(set(queries())))
@pytest.mark.drawn(of=4)
def test_a_query_asks_for_what_a_process_shows(query: str, shown: Mapping[str, Mapping[str, set[str]]]) -> None:
    asked = selectors(query)
    assert asked
    for selector in asked:
        processes = selector.values.get("job", list(shown))
        there = [shown[process][selector.metric] for process in processes if selector.metric in shown[process]]
        assert there, f"{selector.metric} is shown by none of {processes}"
        labels = set().union(*there)
        # A counter with labels shows them once it has counted something; until then tests/kubernetes/test_manifests.py
        # compares them with the code.
        assert not labels or selector.labels <= labels | TARGET
