"""A recording of a live cluster: the event log of the brain that leads, fetched while the brain writes on.

The brain's log has every fact in the order in which the brain heard the facts, and every decision. A watch of objects
would know neither this order nor which facts the brain had heard by a decision. Nothing is written to the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO, Final

import yaml

from rm_emulator.files import replacing, write_file
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario import live
from rm_emulator.scenario.durations import parse_duration
from schedulers.objects.names import LEADER_LABEL, NAMESPACE

#: Seconds between two looks at the log.
_PERIOD_S: Final = 5.0
_CONFIG: Final = "rm-brain"
_FOLDER: Final = "/var/lib/rm-emulator"
#: How lines of decisions begin; all other lines begin a round of the log.
_DECISION: Final = b'{"decision"'
Report = Callable[[str], None]


def main(cluster: live.LiveCluster, out: Path, duration: str | None, report: Report) -> None:
    """Record for so long, or until Ctrl-C: the log to `out`, and a snapshot from the beginning beside the log.

    The recording ends with the term of the leader, too. Raises InvalidInput, and then writes nothing.
    """
    if out.suffix != ".jsonl":
        raise InvalidInput([Issue(f"--out {out}", "expected a name with the ending .jsonl (the snapshot gets .yaml)")])
    try:
        seconds = None if duration is None else parse_duration(duration) / 1000
    except ValueError as error:
        raise InvalidInput([Issue(f"--for {duration}", str(error))]) from None
    log, taken = _Log(cluster), live.take(cluster)
    with replacing(out) as beside:
        with beside.open("w+b") as stream:
            _follow(log, stream, seconds, report)
            facts = _cut(stream)
        if not facts:
            raise InvalidInput(f"the log {log.name} in pod {log.pod} tells no fact yet")
        write_file(out.with_suffix(".yaml"), taken.text())
    report(f"{out}: {facts:,} facts of the term of {log.pod}; {out.with_suffix('.yaml')}: the cluster at the beginning")


def _folder(cluster: live.LiveCluster) -> str:
    """The folder of logs. Raises InvalidInput where the brain's configuration says that no whole log is kept."""
    for item in cluster.get("configmaps", "--namespace", NAMESPACE):
        if (item.get("metadata") or {}).get("name") == _CONFIG:
            try:
                storage = dict(yaml.safe_load(item["data"]["config.yaml"]).get("storage") or {})
            except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError):
                break
            if (kept := storage.get("log", "decisions")) != "full":
                raise InvalidInput(
                    f"the brain keeps '{kept}' of its log: set storage.log to full in ConfigMap {_CONFIG}"
                )
            return f"{storage.get('dir', _FOLDER)}/log"
    return f"{_FOLDER}/log"


def _leader(cluster: live.LiveCluster) -> str:
    """The pod of the brain that leads, by its label: a single brain without leader election has no Lease.

    Raises InvalidInput.
    """
    for item in cluster.get("pods", "--namespace", NAMESPACE, "--selector", LEADER_LABEL):
        return str(item["metadata"]["name"])
    raise InvalidInput(f"no brain of rm-emulator leads in namespace {NAMESPACE}")


class _Log:
    """The log of the present term, in the leader's pod. Raises InvalidInput where nobody leads, or no log is there."""

    def __init__(self, cluster: live.LiveCluster) -> None:
        self._cluster, self._folder = cluster, _folder(cluster)
        self.pod = _leader(cluster)
        self.name = self._newest()

    def is_over(self) -> bool:
        """Whether the term has ended. Raises InvalidInput for a cluster that does not answer."""
        return _leader(self._cluster) != self.pod or self._newest() != self.name

    def fetch(self, stream: BinaryIO) -> None:
        """Append what the stream lacks. Raises InvalidInput, and keeps what came before the connection was lost."""
        first = stream.seek(0, os.SEEK_END) + 1
        self._inside("tail", "-c", f"+{first}", f"{self._folder}/{self.name}", into=stream)

    def _newest(self) -> str:
        names = [name for name in self._inside("ls", self._folder).split() if name.startswith("events-")]
        if not names:
            raise InvalidInput(f"pod {self.pod} has no event log in {self._folder}")
        # The names hold the times of the terms' beginnings.
        return max(names)

    def _inside(self, *words: str, into: BinaryIO | None = None) -> str:
        """Standard output of a program in the brain's container."""
        where = ("--namespace", NAMESPACE, self.pod, "--container", "brain")
        done = self._cluster.ask("exec", *where, "--", *words, into=into)
        if done.returncode:
            raise InvalidInput(f"kubectl exec {self.pod}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return done.stdout or ""


def _follow(log: _Log, stream: BinaryIO, seconds: float | None, report: Report) -> None:
    """Fetch the log again and again. A lost connection is told once, and the recording goes on."""
    until, lost = None if seconds is None else monotonic() + seconds, False
    try:
        while True:
            try:
                # Before the fetch, which then has the last lines of a term that is over.
                over = log.is_over()
                log.fetch(stream)
                lost = False
                if over:
                    report(f"the term of {log.pod} has ended")
                    return
            except InvalidInput as error:
                if not lost:
                    report(f"the connection is lost, and is tried again: {error}")
                lost = True
            left = _PERIOD_S if until is None else until - monotonic()
            if left <= 0:
                return
            sleep(min(_PERIOD_S, left))
    except KeyboardInterrupt:
        report("interrupted: the recording ends here")


def _cut(stream: BinaryIO) -> int:
    """Leave whole rounds alone, a fact with all decisions on the fact; the number of facts that are left.

    The last round goes: the brain may not have written all of its decisions.
    """
    stream.seek(0)
    facts = at = last = 0
    for line in stream:
        if line.endswith(b"\n") and not line.startswith(_DECISION):
            last, facts = at, facts + 1
        at += len(line)
    stream.truncate(last)
    return max(0, facts - 2)  # the header is no fact
