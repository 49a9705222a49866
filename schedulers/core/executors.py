"""Executors: containers outliving their tasks, going on with further tasks, and passing from job to job.

Source: H. Mao et al., "Learning Scheduling Algorithms for Data Processing Clusters" (SIGCOMM 2019), section 5.2.
"""

from __future__ import annotations

from schedulers.core.containers import Containers
from schedulers.core.decisions import Commit, Move, Release, Run
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import TaskEnded
from schedulers.core.live import GRANTED, IDLE, MOVING, RUNNING, ContainerState, JobState


class Executors(Containers):
    """The containers of a cluster, some of them executors."""

    # Empty: without a list of its own, a subclass gives its instances a dict after all.
    __slots__ = ()

    def task_ended(self, event: TaskEnded) -> str | None:
        """A task is done, and its executor is idle."""
        container = self.by_number.get(event.container)
        if container is None or container.status == IDLE or not is_of(event, container):
            return "late"
        job = self._jobs[event.job]
        stage = job.stages[event.stage]
        self.idle[event.container] = container
        if stage.outputs is not None:
            stage.add_output(event.task, container.node, container.ended_at(event.runtime_ms, event.at))
        self._work.stop(job, stage, container)
        speed = self._nodes.by_id[container.node].spec.speed
        self._work.succeed(job, stage, event.task, event.runtime_ms, speed, pilot=container.pilot)
        container.status = IDLE
        self._touch(event.job)
        self._counts.version += 1
        return None

    def run(self, decision: Run, now: int) -> None:
        """Run another task of its job in an idle executor."""
        container = self.by_number[decision.container]
        if container.status != IDLE or container.job != decision.job:
            raise InvalidTransition(f"{container.description}: not an idle executor of job {decision.job}")
        job = self._jobs[decision.job]
        stage = job.stages[decision.stage]
        container.pilot = self._work.launch(job, stage, decision.task)
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        del self.idle[decision.container]
        container.status = RUNNING
        container.started = now
        job.started += 1
        job.started_sum += now
        job.running += 1
        stage.running += 1
        self._counts.version += 1

    def move(self, decision: Move, now: int) -> None:
        """Send an idle executor to a different job, for a task of the receiver."""
        container = self.by_number[decision.container]
        if container.status != IDLE:
            raise InvalidTransition(f"{container.description}: not idle, cannot move to job {decision.job}")
        job = self._jobs[decision.job]
        stage = job.stages[decision.stage]
        container.pilot = self._work.launch(job, stage, decision.task)
        self._hand_over(container, job, now)
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        del self.idle[decision.container]
        # Not RUNNING: the executor has to travel first, and `ContainerStarted` tells of the arrival.
        container.status = GRANTED
        job.running += 1
        stage.running += 1
        self._counts.version += 1

    def commit(self, decision: Commit, now: int) -> None:
        """Bring an executor, idle or new, to a job without a task for the executor yet."""
        job = self._jobs[decision.job]
        stage = job.stages[decision.stage]
        if decision.node:
            self.check_room(decision, job, stage)
            number = decision.container
            container = ContainerState(number, decision.node, job.id, -1, -1, 0, False, stage.size, now)
            self.occupy(container, job, stage.demand)
        else:
            container = self.by_number[decision.container]
            if container.status != IDLE or container.size != stage.size:
                raise InvalidTransition(f"{container.description}: not idle, or not of the size of {decision}")
            del self.idle[container.id]
            self._hand_over(container, job, now)
            # No task yet: `stage` and `task` would otherwise still name the last task of the giver.
            container.stage = container.task = -1
        container.status = MOVING
        self.moving[container.id] = container
        self._touch(job.id)
        self._counts.version += 1

    def _hand_over(self, container: ContainerState, job: JobState, now: int) -> None:
        """Give an idle executor to another job."""
        # The giver may be gone already.
        giver, demand = self._jobs.get(container.job), self._sizes.demands[container.size]
        for r, amount in enumerate(demand):
            job.used[r] += amount
            if giver is not None:
                giver.used[r] -= amount
        if giver is not None:
            giver.executors -= 1
            self._touch(giver.id)
        if self._queues:
            if self._admission.discharge(container.id, demand):
                self._sizes.limits_changed()
            self._admission.charge(container.id, job, demand)
        container.job = job.id
        container.granted = now
        container.started = -1
        job.executors += 1

    def release(self, decision: Release, now: int) -> None:
        """An executor without a task is given back."""
        container = self.by_number.get(decision.container)
        if container is None or container.status not in (IDLE, MOVING):
            story = self.describe(decision.container)
            raise InvalidTransition(f"{story}: not an idle executor, cannot be released")
        self.end(container, 0, 0, now)


def is_of(event: TaskEnded, container: ContainerState) -> bool:
    """Whether the ended task is the container's present task."""
    return (
        container.task == event.task
        and container.stage == event.stage
        and container.attempt == event.attempt
        and container.job == event.job
    )
