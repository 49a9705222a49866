"""A search for a better rule while the run goes on, by plays of the rest of the run."""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from schedulers.core import keyed
from schedulers.core.abilities import PlaysExecutors, Searches
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import Event, RuleChange, SearchEnded, TaskEnded
from schedulers.core.policy import ClusterView, Offer, Suggestions, policies
from schedulers.kit.curves import Curves, CurvesSettings
from schedulers.kit.ordered import Key
from schedulers.planning.replan.obstacles import obstacle
from schedulers.planning.replan.seen import Seen

if TYPE_CHECKING:
    from schedulers.core.state import JobState, StageState

#: No limit, as a number of executors in a log.
_ALL: Final = 1 << 40


class JobRule(msgspec.Struct, array_like=True):
    """What searches have changed of the rule for a job."""

    factor: float = 1.0
    """On the job's key in the order."""
    price: float = 1.0
    """On the price of the job's width."""
    hold: int = _ALL
    """Executors that may wait for the job's next stages."""
    caps: dict[int, int] = {}
    """Executors by stage beyond which none is added."""

    def take(self, change: RuleChange) -> None:
        """Take over a change."""
        if change.setting == "cap":
            self.caps = {**self.caps, change.stage: int(change.value)}
        else:
            setattr(self, change.setting, int(change.value) if change.setting == "hold" else change.value)

    def __str__(self) -> str:
        said = [f"its place in the order x {self.factor:.3g}"] if self.factor != 1 else []
        said += [f"the price of its width x {self.price:.3g}"] if self.price != 1 else []
        said += [f"at most {self.hold} executors held"] if self.hold < _ALL else []
        caps = [f"stage {stage} up to {cap} executors" for stage, cap in sorted(self.caps.items()) if cap < _ALL]
        return ", ".join(said + caps)


@policies.register(
    "replan", source="rm-emulator; search by plays on Decima's setting (SIGCOMM'19)", worlds=("emulator",)
)
class Replan(Curves, Searches, PlaysExecutors):
    """Searches for better settings of `curves` by plays of what may come, at most `budget_ms` at a time.

    The policy begins with the rule of `curves`. Before the first division of executors after a job's end, and else
    each `period_s`, a local search changes a job's place in the order, the price of its width, how many executors may
    wait for its next stages, or how many executors a stage may have. Each candidate is played from the present
    moment to the end of all live jobs in the fast simulator, `plays` times with run times drawn anew, all candidates
    with the same draws. A candidate with sooner ends in the mean is kept, and decisions follow the best rule found.

    **Knowledge.** Run times are drawn by wave (first task on a new executor, first of its stage, later) and by the
    job's number of executors, never the true ones of tasks to come. The predictor `oracle` tells these distributions:
    measured waves, or the run times of a stage's own tasks in no order. Else the policy learns from the last ended
    jobs of the same application and name with as many stages and (to a power of two) tasks. While any live job is
    unknown nothing is searched, and `curves` serves as it is; `explain` says so, and tells what searches have changed
    for a job.

    **Time.** The emulator counts the CPU time of a search against `budget_ms`, so a run on a busy machine is as good
    as on an idle one; but another machine comes to other decisions. With `budget_ms: null` a search always tries
    `candidates` rules, and runs repeat to the byte. Either way the log has what each search found (the fact
    `SearchEnded`), and a replay takes the rule from there instead of searching.

    The simulator knows executors of a single size that outlive their tasks, jobs without gangs and data on edges, and
    no limits of queues; `check` refuses clusters whose containers end with their tasks. Searching needs numba (extra
    `replan`). The policy needs a predictor.
    """

    class Params(CurvesSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        budget_ms: Annotated[
            Annotated[float, msgspec.Meta(gt=0)] | None,
            msgspec.Meta(
                description="time of a search at most, in ms; null: no limit but `candidates`, repeatable runs"
            ),
        ] = 50.0
        candidates: Annotated[
            int, msgspec.Meta(ge=0, description="rules tried by a search at most; larger: better plans, if time allows")
        ] = 100
        plays: Annotated[
            int,
            msgspec.Meta(ge=1, description="plays of each rule; larger: fewer rules in the same time, judged better"),
        ] = 4
        period_s: Annotated[
            float, msgspec.Meta(ge=0, description="time from a search to the next, unless a job ends before, in s")
        ] = 3.0
        moving_s: Annotated[
            float, msgspec.Meta(ge=0, description="expected time to take up an executor, new or of another job, in s")
        ] = 2.0

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.has_budget = params.budget_ms is not None
        self._seen = Seen(inverted=params.inverted_levels)
        self._rules: dict[str, JobRule] = {}
        self._searches = 0  # so far
        self._searched = -1  # when the last search was, ms
        self._job_has_ended = False  # since then
        self._obstacle = ""

    @classmethod
    def missing(cls) -> str:
        """See PlaysExecutors.missing."""
        return "" if importlib.util.find_spec("numba") else "numba is not installed: pip install 'rm-emulator[replan]'"

    # -- the rule ---------------------------------------------------------------------------------

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        first, tie = super().key(job, view)
        return (first * self._rule(job).factor, tie)

    def price(self, job: JobState) -> float:
        """See Curves.price."""
        return self._rule(job).price

    def hold(self, job: JobState) -> float:
        """See Partitioned.hold."""
        return self._rule(job).hold

    def cap(self, job: JobState, stage: StageState) -> float:
        """See Partitioned.cap."""
        return self._rule(job).caps.get(stage.index, math.inf)

    def _rule(self, job: JobState) -> JobRule:
        return self._rules.get(job.id, _UNCHANGED)

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Search if a search is due, and divide executors by the rule found."""
        if not view.has_executors or offer.job is not None:
            yield from super().schedule(view, offer)
            return
        due = self._searched < 0 or self._job_has_ended or view.now >= self._searched + 1000 * self.params.period_s
        if due and self.params.candidates:
            self._search(view)
        idle = [container.id for container in view.idle()]
        yield from super().schedule(view, offer)
        self._seen.went_on(idle, view)

    # -- what is heard ----------------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """Learn run times; take over the rule of a search that a log tells of."""
        if isinstance(event, SearchEnded):
            self._follow(event, view)
            return
        self._seen.observe(event, view)
        self._job_has_ended |= isinstance(event, TaskEnded) and event.job not in view.jobs

    def _follow(self, found: SearchEnded, view: ClusterView) -> None:
        for change in found.found:
            self._rules.setdefault(change.job, JobRule()).take(change)
        self._searches += 1
        self._searched, self._job_has_ended = view.now, False
        self._sort(view)

    def _leave(self, name: str, view: ClusterView) -> None:
        super()._leave(name, view)
        if name not in view.jobs:
            self._rules.pop(name, None)
            self._seen.forget(name)

    # -- the search -------------------------------------------------------------------------------

    def _search(self, view: ClusterView) -> None:
        jobs = list(view.jobs.values())
        self._obstacle = obstacle(view, jobs, self._seen)
        if self._obstacle:
            return
        # Only here, because a replay and a check need no machine code.
        if missing := self.missing():
            raise InvalidParameters(f"policy 'replan': {missing}")
        from schedulers.planning.replan import present, search

        present.load()
        begun = self.clock() if self.clock is not None else 0.0
        params = self.params
        there = present.present(
            view, jobs, self._seen, moving_ms=round(1000 * params.moving_s), inverted=params.inverted_levels
        )
        rule = present.rule_of(there, {job.id: self._rule(job) for job in jobs}, params)

        def stop() -> bool:
            return (
                self.clock is not None
                and params.budget_ms is not None
                and self.clock() - begun >= params.budget_ms / 1000
            )

        random = keyed.generator(self.seed, "replan", self._searches)
        found = search.improved(
            there.play, there.state, rule, random, candidates=params.candidates, plays=params.plays, stop=stop
        )
        changes = present.changes(there, rule, found.rule)
        self.search_result = SearchEnded(view.now, found.tried, "stopped" if found.stopped else "tried", changes)
        self._follow(self.search_result, view)

    # -- explanations and memory ------------------------------------------------------------------

    def about(self, job: JobState) -> dict[str, Any]:
        """See Policy.about: what searches have changed for the job, or why there are none."""
        if self._obstacle:
            return {"said": f"served by the rule of `curves`, not re-planned: {self._obstacle}"}
        said = str(self._rule(job))
        return {"said": f"re-planned: {said}"} if said else {}

    def dump(self) -> Any:
        """What was seen, and the rule."""
        rules = [[job, msgspec.to_builtins(rule)] for job, rule in self._rules.items()]
        return [self._seen.dump(), rules, self._searches, self._searched, self._job_has_ended]

    def load(self, data: Any, view: ClusterView) -> None:
        """Take over the data of `dump`."""
        seen, rules, self._searches, self._searched, self._job_has_ended = data
        self._seen.load(seen)
        self._rules = {job: msgspec.convert(rule, JobRule) for job, rule in rules}
        super().load(data, view)


_UNCHANGED: Final = JobRule()
