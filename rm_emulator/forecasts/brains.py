"""Where the memory of a brain is read: a live cluster, by kubectl, or a file of its ConfigMaps."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from rm_emulator.forecasts.answers import Answer, Delay
from rm_emulator.forecasts.present import Present, present_of
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.document import read_documents
from schedulers.objects.memory import LABEL
from schedulers.objects.names import GROUP, NAMESPACE

_TIMEOUT_S: Final = 120
replace = msgspec.structs.replace


class LiveCluster(NamedTuple):
    """A live cluster, as kubectl reaches it."""

    kubeconfig: Path
    context: str | None = None
    kubectl: str = "kubectl"

    def present(self) -> Present:
        """The present of the cluster's brain. Raises InvalidInput, with kubectl's own message if kubectl fails."""
        done = self._ask("get", "configmaps", "--namespace", NAMESPACE, "--selector", LABEL, "--output", "json")
        if done.returncode:
            why = done.stderr.strip() or f"exit code {done.returncode}"
            raise InvalidInput(f"kubectl get configmaps --namespace {NAMESPACE}: {why}")
        try:
            items = json.loads(done.stdout)["items"]
        except (LookupError, TypeError, ValueError):
            raise InvalidInput("kubectl get configmaps: the answer is no list of objects") from None
        return _of(self.kubeconfig, items)

    def may_list(self) -> Callable[[str], bool]:
        """Whether kubectl's user may list the DagJobs of a namespace; asked once of each."""
        everywhere = self._may("--all-namespaces")
        return cache(lambda namespace: everywhere or self._may("--namespace", namespace))

    def _may(self, *where: str) -> bool:
        return self._ask("auth", "can-i", "list", f"dagjobs.{GROUP}", *where).stdout.strip() == "yes"

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        if shutil.which(self.kubectl) is None:
            raise InvalidInput(f"no program '{self.kubectl}': install kubectl, or name it by --kubectl")
        context = ["--context", self.context] if self.context else []
        command = [self.kubectl, "--kubeconfig", str(self.kubeconfig), *context, *words]
        try:
            return subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise InvalidInput(f"kubectl {words[0]} {words[1]}: no answer within {_TIMEOUT_S} s") from None


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


def shown(answer: Answer, may_list: Callable[[str], bool]) -> Answer:
    """The answer without names of jobs in namespaces that may not be listed: their number is told."""

    def seen(job: str) -> bool:
        return may_list(job.partition("/")[0])

    def seen_delays(delays: tuple[Delay, ...]) -> tuple[Delay, ...]:
        return tuple(delay for delay in delays if seen(delay.job))

    hidden = [job.job for job in answer.jobs if not seen(job.job)]
    if not hidden:
        return answer
    spaces = len({job.partition("/")[0] for job in hidden})
    notes = [f"{len(hidden)} more jobs wait or run in namespaces that you may not list ({spaces})."]
    for new in answer.asked:
        kept = len(seen_delays(new.delays))
        if kept < len(new.delays):
            notes.append(f"{new.job} changes the end of {len(new.delays) - kept} jobs there.")
    return replace(
        answer,
        jobs=tuple(job for job in answer.jobs if seen(job.job)),
        asked=tuple(replace(new, delays=seen_delays(new.delays)) for new in answer.asked),
        unknown=tuple(job for job in answer.unknown if seen(job)),
        notes=(*answer.notes, *notes),
    )
