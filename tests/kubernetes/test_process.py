"""The brain's process: a part that breaks is made anew, and never missing in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from operators.cache.reflector import Reflector
from operators.client import ApiError, Client, Unreachable
from operators.extender.config import BrainConfig
from operators.extender.process import LAG_S, Process
from operators.serving.ports import ExtenderPort
from schedulers.objects.meta import Meta
from schedulers.objects.pod import Pod

CONFIG = BrainConfig(extender=ExtenderPort(tls=None), policy={"kind": "fifo"})


async def breaks() -> None:
    raise RuntimeError("a mistake of ours")


async def ends() -> None:
    return


@pytest.mark.parametrize(("loop", "terms"), [(breaks, 1), (ends, 0)])
def test_a_loop_that_breaks_ends_the_term_and_a_new_one_begins_without_the_snapshot(
    loop: Callable[[], Awaitable[None]], terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []

    async def lead(self: Process, *, use_snapshot: bool) -> None:
        begun.append(use_snapshot)

    async def main() -> None:
        process = Process(CONFIG, cast(Client, None), identity="brain-0")
        await process._keep_up(loop)
        if process._ending is not None:
            await process._ending

    monkeypatch.setattr(Process, "_lead", lead)
    asyncio.run(main())
    assert begun == [False] * terms


class Server:
    """An API server with objects by key (`namespace/name`) of one kind; `errors` are its first answers."""

    def __init__(self, kind: str, objects: dict[str, str], *errors: ApiError) -> None:
        self.kind, self.objects, self.errors = kind, objects, list(errors)

    async def get(self, path: str, fieldSelector: str) -> Any:  # noqa: N803 (the API's word)
        if self.errors:
            raise self.errors.pop()
        *_, namespace, kind = path.split("/")
        uid = self.objects.get(f"{namespace}/{fieldSelector.removeprefix('metadata.name=')}")
        return {
            "items": [{"metadata": {"uid": uid, "resourceVersion": "70"}}]
            if uid is not None and kind == self.kind
            else []
        }


def waits_for(job: str, server: Server, told: dict[str, str] | None = None) -> bool:
    """Whether a new leader waits for this job of its snapshot; told: keys and uids of what the watch tells at last."""

    async def main() -> bool:
        process = Process(CONFIG, cast(Client, server), identity="brain-0")
        waiting = asyncio.ensure_future(process._until_heard_of(job))
        await asyncio.sleep(3 * LAG_S)
        waits = not waiting.done()
        for key, uid in (told or {}).items():
            namespace, _, name = key.partition("/")
            pod = Pod(metadata=Meta(name=name, namespace=namespace, uid=uid))
            process.cache.reflectors["Pod"].objects[key] = pod
        if told is None:
            waiting.cancel()
        else:
            await asyncio.wait_for(waiting, 5)
        return waits

    return asyncio.run(main())


def test_a_new_leader_waits_for_jobs_that_its_watch_has_yet_to_tell_of() -> None:
    assert waits_for("ns/p.12345678", Server("pods", {"ns/p": "12345678-9"}), {"ns/p": "12345678-9"})


@pytest.mark.parametrize(
    "server",
    [Server("dagjobs", {"ns/j": "12345678-9"}), Server("dagjobs", {"ns/j": "12345678-9"}, Unreachable("away"))],
    ids=["there", "away at first"],
)
def test_it_waits_for_dagjobs_that_the_api_server_has(server: Server) -> None:
    assert waits_for("ns/j.12345678", server)


@pytest.mark.parametrize(("heard", "waits"), [("69", True), ("70", False)])
def test_it_does_not_wait_for_what_the_watch_has_passed_and_cannot_tell_of(
    heard: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = Reflector.__init__

    def told(self: Any, *args: Any, **settings: Any) -> None:
        init(self, *args, **settings)
        self._version = heard

    monkeypatch.setattr(Reflector, "__init__", told)
    assert waits_for("ns/p.12345678", Server("pods", {"ns/p": "12345678-9"})) == waits


@pytest.mark.parametrize("objects", [{}, {"ns/j": "another"}], ids=["none", "another of its name"])
def test_it_does_not_wait_for_what_is_gone(objects: dict[str, str]) -> None:
    assert not waits_for("ns/j.12345678", Server("dagjobs", objects), {})
