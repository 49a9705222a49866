"""The table of what is modelled."""

from __future__ import annotations

import pytest

from rm_emulator.hadoop.properties import kind_of, near_modelled, not_modelled


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("yarn.scheduler.capacity.root.a.b.capacity", "4", "modelled"),
        ("yarn.scheduler.capacity.root.queues", "a", "modelled"),
        ("yarn.scheduler.capacity.node-locality-delay", "40", "modelled"),
        ("yarn.resourcemanager.webapp.address", "x", "harmless"),
        ("yarn.nodemanager.local-dirs", "/d", "harmless"),
        ("yarn.sls.metrics.switch", "true", "harmless"),
        ("yarn.scheduler.capacity.root.a.acl_submit_applications", "*", "harmless"),
        ("yarn.scheduler.capacity.schedule-asynchronously.enable", "false", "harmless"),
        ("yarn.scheduler.capacity.schedule-asynchronously.enable", "true", "not modelled"),
        ("yarn.scheduler.capacity.root.a.state", "STOPPED", "not modelled"),
        ("yarn.scheduler.fair.sizebasedweight", "true", "not modelled"),
        ("yarn.scheduler.capacity.root.a.maximum-application-lifetime", "9", "not modelled"),
        ("some.thing.else", "1", "not modelled"),
    ],
)
def test_kind(name: str, value: str, kind: str) -> None:
    assert kind_of(name, value) == kind


def test_not_modelled_is_sorted() -> None:
    assert not_modelled([("z.z", "1"), ("a.a", "1"), ("yarn.acl.enable", "x")]) == ["a.a", "z.z"]


def test_a_typing_mistake_in_a_queue_setting_is_told() -> None:
    found = near_modelled("yarn.scheduler.capacity.root.a.maximum-capacty")
    assert found == "yarn.scheduler.capacity.root.a.maximum-capacity"
