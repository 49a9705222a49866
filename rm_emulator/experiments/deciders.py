"""Deciders of a run: a single scheduler, or the schedulers of the scenario's architecture, each with its log."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import Decentralised, EngineConfig, MultipleThinkers, Thinking
from rm_emulator.engine.control import Control, OneScheduler
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers, assign_jobs, first_container
from rm_emulator.engine.workers import Workers
from rm_emulator.scenario.schema import Scenario
from rm_emulator.workload.model import Workload
from schedulers.core.abilities import Searches, ability
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.policy import Policy
from schedulers.core.predictor import predictors
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser, decider

Entry = Mapping[str, Any]


class Deciders:
    """Deciders of a run by name ('' for a single decider), their logs, and the engine's control of the deciders.

    log: makes the log of a decider from its name; None: no log is kept. policy: decides in place of the entry's policy,
    for a single scheduler.
    """

    def __init__(
        self,
        entry: Entry,
        seed: int,
        scenario: Scenario,
        config: EngineConfig,
        workload: Workload,
        log: Callable[[str], Log] | None = None,
        policy: Policy | None = None,
    ) -> None:
        entries = entries_of(entry, scenario)
        self.logs = {name: log(name) for name in entries} if log is not None else {}
        self._all = [
            decider(scheduler_config(own, seed, scenario, config, number), log=self.logs.get(name), policy=policy)
            for number, (name, own) in enumerate(entries.items())
        ]
        self.schedulers = [each for each in self._all if isinstance(each, Scheduler)]
        """The deciders with a view of the cluster: none where workers queue."""
        for scheduler in self.schedulers:
            if (searches := ability(scheduler.policy, Searches)) is not None and searches.has_budget:
                # Of this thread alone, so that a search is as good on a busy machine.
                searches.clock = time.thread_time
        self.control = self._control(config, workload)
        self.is_clairvoyant = any(is_clairvoyant(own.get("predictor")) for own in entries.values())

    def _control(self, config: EngineConfig, workload: Workload) -> Control:
        first, who, jobs = self._all[0], config.architecture, workload.jobs
        if isinstance(first, Decentraliser):
            return Workers(first)
        if not isinstance(who, Thinking):
            return OneScheduler(first)
        of = assign_jobs(jobs, who.thinkers) if isinstance(who, MultipleThinkers) else {each.job.id: 0 for each in jobs}
        return MultipleSchedulers(self.schedulers, of)

    @property
    def decided(self) -> int:
        """Decisions so far."""
        return sum(each.decision_count for each in self._all)

    @property
    def messages(self) -> int | None:
        """Number of messages between schedulers and workers; None for architectures without messages."""
        who = self._all[0]
        return sum(tally.messages for tally in who.tallies) if isinstance(who, Decentraliser) else None

    @property
    def sha256(self) -> str:
        """Hash of the kept log; of several logs the hash of their hashes."""
        hashes = [log.sha256 for log in self.logs.values()]
        return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def entries_of(entry: Entry, scenario: Scenario) -> dict[str, Entry]:
    """Entry of `policies` by scheduler; '' names a single scheduler."""
    who = scenario.spec.cluster.architecture
    return (
        {each.name: each.policy or entry for each in who.thinkers} if isinstance(who, MultipleThinkers) else {"": entry}
    )


def scheduler_config(entry: Entry, seed: int, scenario: Scenario, config: EngineConfig, number: int) -> SchedulerConfig:
    """The configuration of a scheduler: the header of its log."""
    architecture = config.architecture
    own = {k: v for k, v in entry.items() if k not in ("label", "predictor", "placement")}
    return SchedulerConfig(
        resources=config.resources,
        policy=own,
        predictor=entry.get("predictor"),
        placement=entry.get("placement") or {"kind": "first_fit"},
        offers=timing(config).offers,
        executors=config.executors is not None,
        containers_per_offer=config.containers_per_heartbeat,
        seed=seed,
        record=scenario.spec.record,
        reserve_after=scenario.spec.cluster.reserve_after,
        copies=scenario.spec.copies,
        decentralised=msgspec.to_builtins(architecture.probing) if isinstance(architecture, Decentralised) else None,
        first_container=first_container(number) if number else 1,
    )


def is_clairvoyant(predictor: Entry | None) -> bool:
    """Whether the predictor declares `told_truth = True`, as the oracle does; nobody else hears true run times."""
    return predictor is not None and predictors.entry(predictor["kind"]).cls.told_truth
