"""The queries of manifests/monitoring, and which metrics and labels they ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from devcluster.installation import MANIFESTS

#: Labels that Prometheus gives to all that it scrapes.
TARGET = frozenset({"job", "instance"})


class Selector(NamedTuple):
    """A metric in a query. labels: that select it, and that the query groups by; values: by label, those asked for."""

    metric: str
    labels: frozenset[str]
    values: dict[str, list[str]]


def queries() -> Iterator[str]:
    """Of all rules and panels."""
    rules = yaml.safe_load((MANIFESTS / "monitoring" / "alerts.yaml").read_text())
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])
    board = json.loads((MANIFESTS / "monitoring" / "dashboard.json").read_text())
    yield from (target["expr"] for panel in board["panels"] for target in panel.get("targets", ()))


def selectors(query: str) -> list[Selector]:
    """The metrics of a PromQL query: words with an underscore that are neither functions nor grouped by."""
    grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", query) for label in re.split(r",\s*", by)}
    bare = re.sub(r"\bby \([^)]*\)|\[[^\]]*\]", "", query)
    found = []
    for metric, inside in re.findall(r"\b([a-z]+_[a-z_]+)\b(?!\s*\()(?:\{([^}]*)\})?", bare):
        values = {label: text.split("|") for label, text in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', inside)}
        found.append(Selector(metric, frozenset(grouped | values.keys()), values))
    return found
