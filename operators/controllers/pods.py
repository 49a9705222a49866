"""Makes and deletes the pods of DagJobs, many at once, and reports obstacles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
import structlog

from operators import metrics
from operators.client import AlreadyExists, ApiError, Client, Conflict, Invalid, NotFound, path_of
from operators.controllers.plan import CreatePod, DeletePod
from schedulers.objects.dagjob import WholeDagJob
from schedulers.objects.names import ATTEMPT_LABEL, DAGJOB_LABEL, INDEX_LABEL, QUEUE_LABEL, STAGE_LABEL

log = structlog.get_logger()

T = TypeVar("T")

#: Final answers, the same at any later time: malformed, forbidden (admission, quota), no such namespace, too large,
#: invalid.
_FINAL: Final = (400, 403, 404, 413, 422)
#: Labels by which a pod is found and known again.
_LABELS: Final = (QUEUE_LABEL, DAGJOB_LABEL, STAGE_LABEL, INDEX_LABEL, ATTEMPT_LABEL)


class Refusal(msgspec.Struct, frozen=True):
    """Why a pod cannot be made as things are."""

    reason: str
    message: str


class CreateResult(msgspec.Struct):
    """The outcome of making pods."""

    pods: list[CreatePod] = []
    refusal: Refusal | None = None
    """Why a pod was not made."""
    is_final: bool = False
    """Whether the refusal ended all further tries."""
    must_wait: bool = False
    """Whether a pod can be made as soon as another pod of its name is gone."""


class DeleteResult(msgspec.Struct):
    """The outcome of deleting pods."""

    pods: list[DeletePod] = []
    must_wait: bool = False
    """Whether a pod has changed by now, or its node is there after all."""


class PodWriter:
    """At most `concurrency` writes at once, over all DagJobs."""

    def __init__(self, client: Client, concurrency: int) -> None:
        self._client, self._concurrency = client, concurrency
        self._writes = asyncio.Semaphore(concurrency)

    async def create(self, job: WholeDagJob, creates: Iterable[CreatePod]) -> CreateResult:
        """Make pods, until one is refused for good. Raises ApiError for errors that may pass."""
        made = CreateResult()
        await self._each(creates, lambda one: self._create(job, one, made))
        return made

    async def delete(self, job: WholeDagJob, deletes: Iterable[DeletePod]) -> DeleteResult:
        """Delete pods; pods gone or changed since the decision are left. Raises ApiError."""
        deleted = DeleteResult()
        await self._each(deletes, lambda one: self._delete(job, one, deleted))
        return deleted

    async def _each(self, todo: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
        """`act` on all items. An error ends its worker; all workers have ended when the first error is raised."""
        items = list(todo)
        waiting = iter(items)

        async def work() -> None:
            for item in waiting:
                async with self._writes:
                    await act(item)

        workers = (work() for _ in range(min(self._concurrency, len(items))))
        for error in await asyncio.gather(*workers, return_exceptions=True):
            if error is not None:
                raise error

    async def _create(self, job: WholeDagJob, one: CreatePod, made: CreateResult) -> None:
        if made.is_final:
            return
        try:
            path = path_of("Pod", f"{job.metadata.namespace}/")
            # Strict, because an unknown field would be left out without a word, and its author meant something.
            await self._client.create(path, one.body, fieldValidation="Strict")
        except AlreadyExists:
            await self._look_at(job, one, made)
        except ApiError as error:
            if error.status not in _FINAL:
                raise
            reason = "InvalidTemplate" if isinstance(error, Invalid) else error.reason or "Refused"
            made.refusal, made.is_final = Refusal(reason, error.message), True
        else:
            made.pods.append(one)
            metrics.PODS_CREATED.labels(cause=one.cause).inc()

    async def _look_at(self, job: WholeDagJob, one: CreatePod, made: CreateResult) -> None:
        """Find out whose pod has the name already."""
        try:
            pod = await self._client.get(path_of("Pod", f"{job.metadata.namespace}/{one.name}"))
        except NotFound:
            made.must_wait = True  # just gone
            return
        owner = _owner(pod)
        if pod["metadata"].get("deletionTimestamp"):
            made.must_wait = True
        elif owner.get("uid") == job.metadata.uid:
            await self._find_again(job, one, pod, made)
        elif (owner.get("kind"), owner.get("name")) == ("DagJob", job.metadata.name):
            made.must_wait = True  # its namesake is gone, and the garbage collector comes soon
        elif made.refusal is None:
            whose = f"that of {owner['kind']} {owner['name']}" if owner else "nobody's"
            message = f"pod {one.name} is there already and is {whose}; it has to go before this job's can be made"
            made.refusal = Refusal("NameTaken", message)

    async def _find_again(self, job: WholeDagJob, one: CreatePod, pod: dict[str, Any], made: CreateResult) -> None:
        """A pod of ours. Usually the watch is late; but a pod without its labels is never told by the watch.

        Patching pods would need a wide permission, so such a pod is deleted, and made anew.
        """
        labels, wanted = pod["metadata"].get("labels") or {}, one.body["metadata"]["labels"]
        if all(labels.get(name) == wanted[name] for name in _LABELS):
            return
        made.must_wait = True
        meta = pod["metadata"]
        delete = DeletePod(one.name, meta["uid"], meta["resourceVersion"], "its labels were changed")
        await self._delete(job, delete, DeleteResult())

    async def _delete(self, job: WholeDagJob, delete: DeletePod, deleted: DeleteResult) -> None:
        # The uid makes sure that it is not a successor of the same name that goes, and the version that nothing has
        # become of the pod of which we have not heard.
        body: dict[str, Any] = {"preconditions": {"uid": delete.uid, "resourceVersion": delete.version}}
        if delete.node:
            if await self._is_there(delete.node):
                deleted.must_wait = True
                return
            body["gracePeriodSeconds"] = 0
        try:
            await self._client.delete(path_of("Pod", f"{job.metadata.namespace}/{delete.name}"), body)
        except NotFound:
            return
        except Conflict:
            deleted.must_wait = True
            return
        deleted.pods.append(delete)
        log.info("deleted a pod", pod=delete.name, dagjob=job.key, why=delete.why)

    async def _is_there(self, node: str) -> bool:
        """Whether a node unknown to the watch is there all the same: the node may be the younger."""
        listed = await self._client.get("/api/v1/nodes", fieldSelector=f"metadata.name={node}")
        return bool(listed["items"])


def _owner(pod: dict[str, Any]) -> dict[str, Any]:
    """Its controller, or nothing."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})
