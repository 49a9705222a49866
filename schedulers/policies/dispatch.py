"""Simple rules in the place of learned policies: their teachers and baselines."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from schedulers.learned.orders import RULES


@policies.register("dispatch", source="Decima (SIGCOMM'19), sections 5.2 and 7.1; decima-sim's action")
class RuledDispatch(Dispatch, NeedsEstimates):
    """A simple rule with Decima's kind of answer: the stage to get executors, and a limit on its job's executors.

    Decima answers a single question over and over: to which stage do the free executors go, until its job has how
    many? This policy lets a simple rule answer the question. Learned policies are taught by such rules and compared
    with them in the same form. Rules other than `fair` and `random` need a predictor.

    **On clusters with executors** the question comes when there is room for new executors, when executors of a job
    have nothing to do, and when the first executor of a stage without tasks to start is free; then about all executors
    of the stage at once. Each executor follows its promise when its task ends. An executor may go to a stage not open
    yet, if all tasks of the earlier stages are started or promised, and waits there. A promise to a stage that has run
    out of tasks by then is void, and the question is asked again.

    **Where a container ends with its task** a stage has a number of slots: while tasks wait in the stage, the next
    task gets the room of the ended task. When the stage is out of tasks, the room of all its containers is given at
    once, to open stages. Slots end when a stage opens or a job comes: the question then comes with the next free room,
    and a stage chosen again keeps slots for all its running tasks. Questions are more frequent than with executors,
    and first jobs do not wait for a stage of many tasks.

    **Executor classes.** Where nodes have two to eight different capacities and new containers are given, an answer
    may also name the capacity of the nodes, among capacities with room for the stage (Decima, section 7.3: executors
    with a core and one of four memory sizes). The question is asked again for tasks without room in the class. Rules,
    and weights without class scores, take the smallest; within a class the placement picks the node, and with
    `reserve_after` always.

    **The rule `priced`** serves the shortest job first, with a price on executors. On n executors a job takes about
    T(n): its work divided by n, slower for wider jobs, plus a part of its longest path. The job is served up to the n
    with the least T(n) (1 + 3 x jobs behind it x n / executors). The slowdown of wide jobs is the mean of Decima's
    measured TPC-H profiles and applies where executors outlive tasks; elsewhere width is free. In a stream, a job with
    a third more executors than its number gives them to other jobs.

    In Decima's batch setting the question is asked 290 times for 22,000 tasks; under the rule `capped_sjf` jobs take
    as long as under the policy `capped_sjf` (docs/results-learned.md).
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        rule: Annotated[
            Literal["capped_sjf", "fair", "priced", "proportional", "random"],
            msgspec.Meta(
                description="rule that answers: the policy `capped_sjf`, equal numbers per job (fair), shortest job "
                "first with fewer executors the more jobs are behind (priced), shares by the work left, "
                "for the makespan (proportional), or chance"
            ),
        ] = "capped_sjf"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        if params.rule in ("fair", "random"):
            self.without = frozenset({NeedsEstimates})

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        return RULES[self.params.rule](graph, view, self.question_count)
