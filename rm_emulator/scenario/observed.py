"""Times that a cluster tells: of running pods so far, of ended pods, and of ended jobs in the history of the brain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from schedulers.core.model import PastJob
from schedulers.objects.memory import HISTORY, Damaged, read_index, unpack
from schedulers.objects.meta import to_ms
from schedulers.objects.names import DAGJOB_LABEL, STAGE_LABEL

#: Suffixes by which controllers tell runs apart: an index, a time (CronJob), five letters or a hash (pods, Jobs).
_RUN: Final = re.compile(r"-(\d+|[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9a-f]{8,10})$")
#: Fewer run times have a mean and no spread.
_FEWEST: Final = 3
#: A smaller coefficient of variation is noise of clocks of whole seconds.
_LEAST_COV: Final = 0.05
#: Labels of a pod of a JobSet: the set, and the part of the set (a pod set of Kueue).
JOBSET_LABELS: Final = ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")
Key = tuple[str, str, str]


def stem(name: str) -> str:
    """A name without the suffixes of single runs: `report` for `report-29384756-x7k2p`."""
    while (match := _RUN.search(name)) is not None and match.start():
        name = name[: match.start()]
    return name


def controller(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to an object's controller; empty without a controller."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def age_s(pod: Mapping[str, Any], now_ms: int, notes: list[str]) -> float:
    """Seconds since a pod's first container started; 0 for a pod that has not, and, with a note, for skewed clocks."""
    status = pod.get("status") or {}
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    starts = [ms for state in states if (ms := to_ms((state.get("running") or {}).get("startedAt"))) is not None]
    # A pod whose containers tell nothing may have been a while in pulling its images.
    started = min(starts) if starts else to_ms(status.get("startTime"))
    if started is None or status.get("phase") != "Running":
        return 0.0
    if started > now_ms:
        meta = pod["metadata"]
        ahead = f"{(started - now_ms) / 1000:g} s after the snapshot"
        notes.append(
            f"pod {meta['namespace']}/{meta['name']} started {ahead}: clocks differ, and its run time so far is 0"
        )
    return max(0, now_ms - started) / 1000


def _ran_s(pod: Mapping[str, Any]) -> float | None:
    """Seconds from the first start to the last end of a succeeded pod's containers; None where nothing tells."""
    status = pod.get("status") or {}
    if status.get("phase") != "Succeeded":
        return None
    ended = [(each.get("state") or {}).get("terminated") or {} for each in status.get("containerStatuses") or ()]
    starts = [ms for each in ended if (ms := to_ms(each.get("startedAt"))) is not None]
    ends = [ms for each in ended if (ms := to_ms(each.get("finishedAt"))) is not None]
    return (max(ends) - min(starts)) / 1000 if starts and ends and max(ends) > min(starts) else None


class RunTimes:
    """Run times of ended pods by namespace, owner and part of the owner, such as a stage."""

    def __init__(self, pods: Iterable[Mapping[str, Any]]) -> None:
        self._known: dict[Key, list[float]] = {}
        for pod in pods:
            try:
                seconds = _ran_s(pod)
                if seconds is not None:
                    self._add(pod, seconds)
            except (AttributeError, KeyError, TypeError):
                continue  # whoever reads the pod itself says what is wrong with the pod

    def _add(self, pod: Mapping[str, Any], seconds: float) -> None:
        meta = pod["metadata"]
        labels, space = meta.get("labels") or {}, meta.get("namespace", "")
        owner = labels.get(DAGJOB_LABEL) or controller(pod).get("name") or meta["name"]
        owners = {(owner, labels.get(STAGE_LABEL, ""))}
        if all(labels.get(each) for each in JOBSET_LABELS):
            owners.add((labels[JOBSET_LABELS[0]], labels[JOBSET_LABELS[1]]))
        for key in {(space, each, part) for name, part in owners for each in (name, stem(name))}:
            self._known.setdefault(key, []).append(seconds)

    def of(self, namespace: str, owner: str, part: str = "") -> tuple[str, str] | None:
        """The run time of an owner's pods, as the annotation holds one, and words for its source; None if unknown."""
        for name, source in ((owner, "of its own"), (stem(owner), f"of '{stem(owner)}'")):
            known = self._known.get((namespace, name, part), ())
            if known:
                pods = f"{len(known)} ended pod{'s' if len(known) > 1 else ''} {source}"
                return _written(known), pods
        return None


class PastRuns:
    """Run times of ended jobs by user, name and number of stages, from the history that the brain stored."""

    def __init__(self, config_maps: Iterable[Mapping[str, Any]], notes: list[str]) -> None:
        self._known: dict[tuple[str, str, int], list[PastJob]] = {}
        self.used: set[str] = set()
        """Jobs whose run times the history told, as `namespace/name`."""
        maps = {str((item.get("metadata") or {}).get("name")): item for item in config_maps}
        if HISTORY not in maps:
            return
        try:
            stored = msgspec.msgpack.decode(unpack(read_index(maps[HISTORY]), maps), type=tuple[PastJob, ...])
        except (Damaged, msgspec.DecodeError) as error:
            notes.append(f"the brain's history is not whole and is left out: {error}")
            return
        for job in stored:
            if job.name:
                self._known.setdefault((job.user, job.name, len(job.stages)), []).append(job)

    def of(self, user: str, name: str, stages: int, stage: int) -> tuple[str, str] | None:
        """The run time of a stage's tasks as the annotation holds one, and words for its source; None if unknown.

        stages: number of stages of the job; runs with other stages tell nothing. The spread is that of the jobs' means.
        """
        runs = self._known.get((user, name, stages), ())
        means = [ms / 1000 for tasks, ms in (job.stages[stage] for job in runs) if tasks and ms > 0]
        if not means:
            return None
        of = f"'{name}' of user '{user}'" if user else f"'{name}'"
        return _written(means), f"{len(means)} run{'s' if len(means) > 1 else ''} of {of} in the brain's history"


def _written(known: Iterable[float]) -> str:
    """`42.5`, or a distribution by mean and coefficient of variation."""
    seconds = list(known)
    mean = math.fsum(seconds) / len(seconds)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in seconds) / max(1, len(seconds) - 1))
    if len(seconds) < _FEWEST or deviation < _LEAST_COV * mean:
        return f"{mean:.3f}"
    return f"lognormal({mean:.3f}, {deviation / mean:.3f})"
