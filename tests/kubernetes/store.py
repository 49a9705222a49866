"""Time that jumps, and an API server in memory that loses requests and answers when told to.

For what a real control plane cannot be made to do at a given instant. What it can do is tested on one.
"""

from __future__ import annotations

import asyncio
import copy
import selectors
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from operators.client import AlreadyExists, Conflict, NotFound, Unreachable

T = TypeVar("T")


class _Jump(selectors.DefaultSelector):
    """Waits no time: the loop's clock jumps to the next timer."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:  # nothing but a thread can go on
            ready = super().select(5)
            if not ready:
                raise RuntimeError("everybody waits, and nothing will happen any more")
            return ready
        self.loop.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds take no time."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Jump()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` to its end in virtual time."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


class Store:
    """Objects by path, each write with the next resource version."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self.version)
        stored["metadata"].setdefault("creationTimestamp", f"2026-01-01T00:00:{self.version % 60:02}Z")
        self.objects[path] = stored
        return copy.deepcopy(stored)


class StoreClient:
    """One caller of a Store; quacks like `Client`.

    lose: requests do not arrive. deaf: they arrive, but the answers are lost. slow_s: they take so long, or
    each as long as the next of `pauses`. calls: all that were made.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lose = self.deaf = False
        self.slow_s = 0.0
        self.pauses: Iterator[float] = iter(())
        self.calls: list[tuple[str, str]] = []

    async def get(self, path: str, **params: str) -> Any:
        return await self._call("get", path, lambda: self._get(path, params.get("labelSelector")))

    async def create(self, path: str, body: Any, **params: str) -> Any:
        return await self._call("create", path, lambda: self._create(f"{path}/{body['metadata']['name']}", body))

    async def replace(self, path: str, body: Any, **params: str) -> Any:
        return await self._call("replace", path, lambda: self._replace(path, body))

    async def _call(self, verb: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((verb, path))
        await asyncio.sleep(next(self.pauses, self.slow_s))
        if self.lose:
            raise Unreachable("lost on the way there")
        answer = act()
        if self.deaf:
            raise Unreachable("lost on the way back")
        return answer

    async def delete(self, path: str, body: Any = None, **params: str) -> Any:
        return await self._call("delete", path, lambda: self._delete(path))

    def _delete(self, path: str) -> Any:
        if self.store.objects.pop(path, None) is None:
            raise NotFound(404, "NotFound", path)
        return {}

    async def patch(self, path: str, body: Any, *, kind: str) -> Any:
        assert kind == "merge"
        return await self._call("patch", path, lambda: self._merge_labels(path, body["metadata"]["labels"]))

    def _merge_labels(self, path: str, labels: dict[str, str | None]) -> None:
        body = self._get(path)
        merged = {**body["metadata"].get("labels", {}), **labels}
        body["metadata"]["labels"] = {key: value for key, value in merged.items() if value is not None}
        self.store.put(path, body)

    def _get(self, path: str, label: str | None = None) -> Any:
        if path.endswith("s") and path not in self.store.objects:
            items = [body for key, body in self.store.objects.items() if key.rpartition("/")[0] == path]
            chosen = [body for body in items if label is None or label in body["metadata"].get("labels", {})]
            return {"items": copy.deepcopy(chosen)}
        if path not in self.store.objects:
            raise NotFound(404, "NotFound", path)
        return copy.deepcopy(self.store.objects[path])

    def _create(self, path: str, body: Any) -> Any:
        if path in self.store.objects:
            raise AlreadyExists(409, "AlreadyExists", path)
        return self.store.put(path, body)

    def _replace(self, path: str, body: Any) -> Any:
        if path not in self.store.objects:
            raise NotFound(404, "NotFound", path)
        if body["metadata"]["resourceVersion"] != self.store.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", path)
        return self.store.put(path, body)


async def until(said: Callable[[], bool], *, within_s: float = 60.0, step_s: float = 0.02) -> None:
    """Wait until `said()`; fails the test when that takes longer."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not said():
        assert loop.time() < end, f"not within {within_s} s"
        await asyncio.sleep(step_s)


async def nothing() -> None:
    """What is called and does nothing."""
