"""The label of the leader's pod, with an API server in memory and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from operators.client import Client
from operators.extender.leader_label import AGAIN_S, EVERY_S, LeaderLabel
from schedulers.objects.names import LEADER_LABEL
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual

PODS = "/api/v1/namespaces/rm-system/pods"


class Replicas:
    """Pods of brains, of which those named in `labelled` have the label; `leads` is what the replica `a` believes."""

    def __init__(self, *labelled: str, leads: bool = False) -> None:
        self.store, self.leads = Store(), leads
        self.client = StoreClient(self.store)
        for name in ("a", "b", "c"):
            labels = {"app": "rm-brain", **({LEADER_LABEL: "true"} if name in labelled else {})}
            self.store.put(f"{PODS}/{name}", {"metadata": {"name": name, "labels": labels}})
        self.label = LeaderLabel(cast(Client, self.client), "rm-system", "a", lambda: self.leads)

    def labelled(self) -> list[str]:
        return [
            body["metadata"]["name"]
            for body in self.store.objects.values()
            if LEADER_LABEL in body["metadata"]["labels"]
        ]

    def after(self, *steps: tuple[float, Callable[[], object]]) -> list[str]:
        """Run `a`; do each step after so many seconds; the pods with the label in the end."""

        async def main(loop: VirtualLoop) -> None:
            running = asyncio.ensure_future(self.label.run())
            for pause_s, step in steps:
                await asyncio.sleep(pause_s)
                step()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        run_virtual(main)
        return self.labelled()


def nothing() -> None:
    pass


@pytest.mark.parametrize("before", [(), ("a",), ("b",), ("a", "b", "c")])
def test_a_leader_alone_has_the_label(before: tuple[str, ...]) -> None:
    assert Replicas(*before, leads=True).after((0.1, nothing)) == ["a"]


@pytest.mark.parametrize(("before", "after"), [((), []), (("a",), []), (("b",), ["b"]), (("a", "b"), ["b"])])
def test_one_that_stands_by_takes_the_label_off_itself_alone(before: tuple[str, ...], after: list[str]) -> None:
    assert Replicas(*before).after((0.1, nothing)) == after


def test_other_labels_stay() -> None:
    replicas = Replicas("b", leads=True)
    replicas.after((0.1, nothing))
    assert all(body["metadata"]["labels"]["app"] == "rm-brain" for body in replicas.store.objects.values())


def test_the_label_follows_leadership_at_once() -> None:
    replicas = Replicas("b")

    def gain() -> None:
        replicas.leads = True
        replicas.label.look()

    assert replicas.after((1, gain), (0.1, nothing)) == ["a"]


def test_a_label_that_another_takes_away_comes_back() -> None:
    replicas = Replicas(leads=True)

    def take() -> None:
        replicas.store.objects[f"{PODS}/a"]["metadata"]["labels"].pop(LEADER_LABEL)

    assert replicas.after((1, take), (EVERY_S, nothing)) == ["a"]


def test_an_api_server_that_is_away_is_asked_again() -> None:
    replicas = Replicas("b", leads=True)
    replicas.client.lose = True
    assert replicas.after((1, lambda: setattr(replicas.client, "lose", False)), (AGAIN_S, nothing)) == ["a"]


def test_a_leader_that_is_deposed_while_it_asks_labels_nothing() -> None:
    replicas = Replicas(leads=True)
    replicas.client.slow_s = 1.0
    assert replicas.after((0.5, lambda: setattr(replicas, "leads", False)), (1, nothing)) == []


def test_outside_a_cluster_nothing_is_asked() -> None:
    client = StoreClient(Store())
    run_virtual(lambda loop: LeaderLabel(cast(Client, client), "rm-system", None, lambda: True).run())
    assert client.calls == []
