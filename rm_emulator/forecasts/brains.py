"""Where the memory of a brain is read: a live cluster, by kubectl, or a file of its ConfigMaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rm_emulator.forecasts.answers import Answer, Compared, Delay
from rm_emulator.forecasts.present import Present, present_of
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.document import read_documents
from rm_emulator.scenario.live import LiveCluster
from schedulers.objects.memory import LABEL
from schedulers.objects.names import GROUP, NAMESPACE

replace = msgspec.structs.replace


def present_at(cluster: LiveCluster) -> Present:
    """The present of the cluster's brain. Raises InvalidInput, with kubectl's own message if kubectl fails."""
    return _of(cluster.kubeconfig, cluster.get("configmaps", "--namespace", NAMESPACE, "--selector", LABEL))


def may_list(cluster: LiveCluster) -> Callable[[str], bool]:
    """Whether kubectl's user may list the DagJobs of a namespace; asked once of each."""

    def may(*where: str) -> bool:
        return cluster.ask("auth", "can-i", "list", f"dagjobs.{GROUP}", *where).stdout.strip() == "yes"

    everywhere = may("--all-namespaces")
    return cache(lambda namespace: everywhere or may("--namespace", namespace))


def present_in(path: Path) -> Present:
    """The present in a file of `rm-emulator snapshot`, or of `kubectl get configmaps -o yaml`; read as it was written.

    Raises InvalidInput.
    """
    items: list[Mapping[str, Any]] = []
    for document in read_documents(path):
        data = document.data if isinstance(document.data, dict) else {}
        listed = data.get("items") if str(data.get("kind", "")).endswith("List") else [data]
        items += [
            item
            for item in (listed if isinstance(listed, list) else [])
            if isinstance(item, dict) and item.get("kind") == "ConfigMap" and isinstance(item.get("metadata"), dict)
        ]
    # Elapsed times in the file end with the last change that the brain stored.
    return _of(path, items, read_ms=0)


def _of(path: Path, items: Iterable[Mapping[str, Any]], read_ms: int | None = None) -> Present:
    try:
        return present_of(items, read_ms=read_ms)
    except InvalidInput as error:
        raise InvalidInput([Issue(str(path), issue.message) for issue in error.issues]) from None


def shown(answer: Answer, may: Callable[[str], bool]) -> Answer:
    """The answer without names of jobs in namespaces that may not be listed: their number is told."""

    def seen(job: str) -> bool:
        return may(job.partition("/")[0])

    def seen_delays(delays: tuple[Delay, ...]) -> tuple[Delay, ...]:
        return tuple(delay for delay in delays if seen(delay.job))

    def seen_change(change: Compared) -> Compared:
        return replace(change, jobs=seen_delays(change.jobs), never=tuple(filter(seen, change.never)))

    hidden = [job.job for job in answer.jobs if not seen(job.job)]
    if not hidden:
        return answer
    spaces = len({job.partition("/")[0] for job in hidden})
    notes = [f"{len(hidden)} more jobs wait or run in namespaces that you may not list ({spaces})."]
    for new in answer.asked:
        kept = len(seen_delays(new.delays))
        if kept < len(new.delays):
            notes.append(f"{new.job} changes the end of {len(new.delays) - kept} jobs there.")
    compared = None if answer.compared is None else seen_change(answer.compared)
    return replace(
        answer,
        compared=compared,
        jobs=tuple(job for job in answer.jobs if seen(job.job)),
        asked=tuple(replace(new, delays=seen_delays(new.delays)) for new in answer.asked),
        unknown=tuple(job for job in answer.unknown if seen(job)),
        notes=(*answer.notes, *notes),
    )
