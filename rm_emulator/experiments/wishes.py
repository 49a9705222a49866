"""`rm-emulator wishes`: plain wishes as expressions in STRL, a planning policy's own form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from rm_emulator.scenario.cluster import nodes, resources_of
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.workload import Built
from rm_emulator.workload.model import WorkloadJob, mean_ms
from schedulers.core.errors import nearest
from schedulers.core.events import Estimated, JobSubmitted, NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.policy import policies
from schedulers.core.scheduler import Scheduler
from schedulers.planning.tetrisched.policy import PlanAheadPolicy
from schedulers.planning.tetrisched.strl import InvalidExpression, parse, write

#: Without a policy in the scenario that plans for wishes it is as with this one.
_USUAL: Final[dict[str, Any]] = {"kind": "tetrisched"}
_INDENT: Final = "  "


def formatted(file: Path) -> str:
    """The expression of a text file, indented. Raises InvalidInput with the line of a syntax error."""
    try:
        return write(parse(file.read_text(encoding="utf-8")), indent=_INDENT)
    except InvalidExpression as error:
        raise InvalidInput([Issue(str(file), error.what, error.line, error.column)]) from None
    except OSError as error:
        raise InvalidInput([Issue(str(file), f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidInput([Issue(str(file), "cannot be read: it is no text in UTF-8")]) from None


def expressions(loaded: Loaded, built: Built, name: str | None = None) -> str:
    """Expressions of each job with wishes or a deadline at its arrival on the empty cluster; of a single job by name.

    Times are in ms from the arrival on. Tasks take their `hint`, else their mean run time.
    Raises InvalidInput for an unknown job, and for a workload without wishes and deadlines.
    """
    jobs = built.workload.jobs
    if name is not None and all(source.job.id != name for source in jobs):
        ids = [source.job.id for source in jobs]
        raise InvalidInput([Issue(str(loaded.file), f"has no job '{name}'", hint=did_you_mean(nearest(name, ids)))])
    shown = [source for source in jobs if (_has_wishes(source) if name is None else source.job.id == name)]
    if not shown:
        raise InvalidInput(
            [Issue(str(loaded.file), "no job has wishes or a deadline: give one `wishes` or `deadline`")]
        )
    return "\n".join(line for source in shown for line in _job(loaded, source))


def _has_wishes(source: WorkloadJob) -> bool:
    return source.job.wishes is not None or source.job.deadline is not None


def _job(loaded: Loaded, source: WorkloadJob) -> Iterator[str]:
    spec, job = loaded.scenario.spec, source.job
    if job.deadline is not None:
        job = msgspec.structs.replace(job, deadline=job.deadline - source.submit_ms)
    planned = (
        policy.settings for policy in spec.policies if issubclass(policies.entry(policy.kind).cls, PlanAheadPolicy)
    )
    resources = resources_of(loaded.scenario)
    config = SchedulerConfig(
        resources=resources.names, policy=dict(next(planned, _USUAL)), predictor={"kind": "oracle"}, offers="cycle"
    )
    scheduler = Scheduler(config)
    for node in nodes(spec.cluster.nodes, resources):
        scheduler.handle(NodeAdded(0, node))
    scheduler.handle(Estimated(0, job.id, tuple(map(round, _takes(source)))))
    scheduler.handle(JobSubmitted(0, job))
    assert isinstance(scheduler.policy, PlanAheadPolicy)
    for state, stage, asked in scheduler.policy.expressions(scheduler.view):
        said = job.stages[stage.index]
        yield f"# job {state.id}, stage {said.name}: {said.tasks} tasks{' together' if said.gang else ''}"
        yield "# none of what it wishes for can ever be had" if asked is None else write(asked.wants, indent=_INDENT)
    later = [stage.name for stage in job.stages if stage.above]
    if later:
        yield f"# job {job.id}: {', '.join(later)} when the stages before are done"


def _takes(source: WorkloadJob) -> Iterator[float]:
    """Run time of a task by stage (ms)."""
    for stage, times in zip(source.job.stages, source.runtimes, strict=True):
        yield stage.hint_ms if stage.hint_ms is not None else mean_ms(times) or 0.0
