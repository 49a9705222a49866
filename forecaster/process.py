"""The forecaster's process: follows the brain's memory, has plays made, and writes what is news into DagJobs' status.

Nobody depends on the process, and everything that it knows is read anew after a start. So there is no leader: two
processes at once would only write the same field twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, Final, Protocol

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forecaster.answers import Answered, Answers, MemoryUnusable, NoAnswer, Plays, WentAstray
from forecaster.config import ForecasterConfig
from forecaster.memory import read_memory
from forecaster.told import Listed, Told, Word
from operators import metrics
from operators.client import ApiError, Client, Conflict, NotFound, path_of, wall_ms
from operators.serving.server import management, serve, serve_management
from operators.serving.watchdog import LoopWatchdog
from schedulers.objects.memory import LogPlace
from schedulers.objects.names import API_VERSION

log = structlog.get_logger()

FIELD_MANAGER: Final = "rm-forecaster"
#: Writes a second, at most: each wakes whoever watches DagJobs, brain and controllers among them.
WRITES_PER_S: Final = 10
#: Seconds for the plays of one round.
_PLAYS_S: Final = 300.0
#: Seconds without a turn of the loop, after which the process is not alive: plays, lists and writes all have limits.
_STUCK_S: Final = 3 * _PLAYS_S
#: Seconds without an answer of the API server, after which the process is not ready: plays, and two minutes.
_STALE_S: Final = _PLAYS_S + 120.0
_PAGE: Final = 500
#: Seconds between two log lines about writes refused for the same reason.
_REFUSED_S: Final = 60.0


class Ask(Protocol):
    """Asks for answers, as `Plays` does."""

    def __call__(
        self, config_maps: Sequence[dict[str, Any]], read_ms: int, *, whole: bool, within_s: float
    ) -> Awaitable[Answered]:
        """See `Plays`."""


class ForecasterProcess:
    """One loop: read, list, play, write; never two plays at once."""

    def __init__(self, config: ForecasterConfig, client: Client, identity: str, *, ask: Ask | None = None) -> None:
        self.config, self.client, self._ask = config, client, ask or Plays()
        self.told, self.refusals, self.watchdog = Told(), Refusals(), LoopWatchdog(_STUCK_S)
        self._version: tuple[str, ...] = ()  # of the memory that was played last
        self._place: LogPlace | None = None  # in the brain's log, of the core that the process of the plays keeps
        self._heard_s: float | None = None
        self.answers: Answers | None = None  # of the last round

    def not_ready(self) -> str | None:
        """Why the process must not be believed to work. A cluster whose brain has stored nothing yet is no reason."""
        silent = self._heard_s is None or _now_s() - self._heard_s > _STALE_S
        return "the API server has not answered" if silent else None

    async def run(self) -> None:
        """Until cancelled."""
        port, probes = self.config.answers, management(self.not_ready, self.watchdog.stuck)
        async with asyncio.TaskGroup() as group:
            if port is None:
                group.create_task(serve_management(probes, self.config.management))
            else:
                group.create_task(serve(self.app(), port, probes, self.config.management))
            group.create_task(self._go_on())

    def app(self) -> Starlette:
        """`GET /v1/expected`: the answers for all live jobs, plain pods among them, by `namespace/name.uid`."""

        async def expected(request: Request) -> Response:
            if self.answers is None:
                return Response("no answer yet: see /readyz and the log", 503)
            return Response(msgspec.json.encode(self.answers), media_type="application/json")

        return Starlette(routes=[Route("/v1/expected", expected)])

    async def _go_on(self) -> None:
        self.watchdog.begin("rounds")
        while True:
            again_s = _now_s() + self.config.every / 1000
            try:
                await self._round()
                await self._write()
            except MemoryUnusable as error:
                _failed("memory", error)
            except WentAstray as error:
                self._version = ()  # the same memory, read as a whole, is of use
                _failed("astray", error)
            except NoAnswer as error:
                _failed("plays", error)
            except (ApiError, OSError, msgspec.DecodeError) as error:
                _failed("api", error)
            self.refusals.tell(_now_s())
            self.watchdog.note_turn("rounds")
            await asyncio.sleep(max(0.0, again_s - _now_s()))

    async def _round(self) -> None:
        """New answers, if the brain has stored another memory; else a look at which jobs with an answer have ended.

        Jobs end without the brain, too, and an end to come would then be wrong.
        """
        began_s = _now_s()
        read_ms = wall_ms()
        memory = await read_memory(self.client, self.config.namespace, self._version, self._place)
        self._heard_s = _now_s()
        if memory is None and not self.told.has_answers:
            return
        listed = [each async for each in self._dagjobs()]
        if memory is None:
            self.told.hear({}, listed)
            return
        # From here on the memory is done with: plays that failed once would fail again.
        self._version, self._place = memory.version, None
        if memory.whole:
            metrics.FORECAST_RELOADS.labels(memory.whole).inc()
            if memory.whole != "first":
                log.info("reads all of the brain's memory", why=memory.whole)
        whole = bool(memory.whole)
        self.answers, place = await self._ask(memory.config_maps, read_ms, whole=whole, within_s=_PLAYS_S)
        self._place = place if place.log else None
        self.told.hear(self.answers, listed)
        quality = self.told.quality()
        metrics.FORECAST_ROUND.set(_now_s() - began_s)
        metrics.FORECAST_HELD.set(quality.held)
        metrics.FORECAST_ERROR.set(quality.error_s)

    async def _dagjobs(self) -> AsyncIterator[Listed]:
        """All DagJobs, page by page; an object that makes no sense is left out."""
        page: dict[str, str] = {"limit": str(_PAGE)}
        while True:
            listed: Any = await self.client.get(f"/apis/{API_VERSION}/dagjobs", **page)
            for item in listed["items"]:
                try:
                    yield msgspec.convert(item, Listed)
                except msgspec.ValidationError:
                    metrics.UNREADABLE.labels("DagJob").inc()
            page["continue"] = listed["metadata"].get("continue") or ""
            if not page["continue"]:
                return

    async def _write(self) -> None:
        """Write what is due, one after the other; the rest waits for the next round, whose answers are newer."""
        until_s = _now_s() + self.config.every / 1000
        while (began_s := _now_s()) < until_s and (word := self.told.due(began_s)) is not None:
            await self._write_word(word)
            await asyncio.sleep(max(0.0, began_s + 1 / WRITES_PER_S - _now_s()))

    async def _write_word(self, word: Word) -> None:
        """By server-side apply, which owns `status.expected` and touches no field of another writer.

        Raises ApiError for a fault that may pass.
        """
        meta, path = word.meta, path_of("DagJob", word.meta.key)
        status = {} if word.expected is None else {"expected": word.expected}
        try:
            there = msgspec.convert(await self.client.get(path), Listed)
            if there.metadata.uid != meta.uid:
                raise NotFound(404, "NotFound", f"{meta.key} is another job by now")
            if there.is_over and word.expected is not None:
                self.told.drop(word)
                return
            # The version keeps a namesake that is made in this moment from being written to (a uid would not).
            version = {
                "name": meta.name,
                "namespace": meta.namespace,
                "resourceVersion": there.metadata.resourceVersion,
            }
            body = {"apiVersion": API_VERSION, "kind": "DagJob", "metadata": version, "status": status}
            await self.client.patch(f"{path}/status", body, kind="apply", field_manager=FIELD_MANAGER, force=True)
        except Conflict:
            return  # changed since the look: the word is still due
        except ApiError as error:
            if error.is_transient:
                raise
            gone = isinstance(error, NotFound)
            metrics.FORECASTS.labels("gone" if gone else "error").inc()
            if not gone:
                self.refusals.note(error, _now_s())
            self.told.drop(word)
        else:
            metrics.FORECASTS.labels("ok").inc()
            self.told.wrote(word, _now_s())


class Refusals:
    """Refused writes by reason: a log line for the first of a reason at once, later ones together, a line a minute."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str], tuple[int, str, float]] = {}  # writes, words of the first, when to tell

    def note(self, error: ApiError, now_s: float) -> None:
        """A write was refused."""
        reason = error.status, error.reason
        count, why, at_s = self._counts.get(reason, (0, "", now_s))
        self._counts[reason] = count + 1, why or str(error), at_s
        self.tell(now_s)

    def tell(self, now_s: float) -> None:
        """Log what is due."""
        for reason, (count, why, at_s) in self._counts.items():
            if count and at_s <= now_s:
                log.warning("answers cannot be written", writes=count, why=why)
                self._counts[reason] = 0, "", now_s + _REFUSED_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _failed(why: str, error: Exception) -> None:
    metrics.FORECAST_FAILURES.labels(why).inc()
    log.warning("a round has failed; the answers stay as they are", part=why, why=str(error))
