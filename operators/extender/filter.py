"""kube-scheduler's questions: where a pod may be bound, how the nodes score, which pods may be preempted."""

from __future__ import annotations

from collections.abc import Sequence

from operators.extender.driver import CoreDriver
from operators.extender.intake import SetAside
from operators.extender.jobs import JobEntry
from operators.extender.ledger import Task
from operators.extender.translator import ChangeTranslator
from operators.extender.wire import FilterAnswer, Victims
from schedulers.core.errors import InvalidJob
from schedulers.core.events import OfferAsked
from schedulers.core.refusals import NodeCode
from schedulers.core.state import ContainerState
from schedulers.objects.pod import Pod


class Filter:
    """Answers kube-scheduler's filter, prioritize and preempt calls.

    A pod released behind our gate has a container already; for a pod without gate the call decides on a container.
    """

    def __init__(self, driver: CoreDriver, translator: ChangeTranslator) -> None:
        self.scheduler, self.ledger, self.jobs = driver.scheduler, driver.ledger, driver.jobs
        self._driver, self._translator = driver, translator

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """Nodes for the pod among `nodes`: the reserved node, or a node chosen now."""
        container = self._driver.container_of(pod.metadata.uid)
        if container is not None and container.node in set(nodes):
            return _only(container.node)
        entry = self.jobs.of_owner(pod.dagjob_uid or pod.metadata.uid)
        if pod.dagjob_uid or (entry is not None and entry.is_pod_group):
            return self._filter_task(pod, nodes, container, entry)
        if container is not None:
            self._driver.give_up(container.id)  # kube-scheduler rules its node out: choose again among these
        return self._filter_plain(pod, nodes, entry)

    def _filter_task(
        self, pod: Pod, nodes: Sequence[str], container: ContainerState | None, entry: JobEntry | None
    ) -> FilterAnswer:
        if container is not None:
            return _none(nodes, f"reserved on {container.node}, which kube-scheduler rules out")
        task = entry.task(pod) if entry is not None else None
        if entry is None or task is None:
            return FilterAnswer([], {}, {}, f"the DagJob of pod {pod.key} is not known yet; try again")
        self.ledger.put(pod.metadata.uid, pod.key, task, pod.attempt)
        # Somebody else opened the gate, so the stage has begun whatever the core has been told.
        self._translator.pods.ask(entry, task, pod)
        self._driver.backoffs.resume((task.job, task.stage), self._driver.now())
        job = self.scheduler.state.jobs.get(task.job)
        state = self.scheduler.state
        if job is not None:
            for name in nodes:
                if name in state.nodes and state.nodes[name].fits(job.stages[task.stage]):
                    if self._driver.adopt(task, pod, name) is not None:
                        return _only(name)
                    break
        return _none(nodes, "its gate was removed by somebody else, and there is no room for it")

    def _filter_plain(self, pod: Pod, nodes: Sequence[str], entry: JobEntry | None) -> FilterAnswer:
        if entry is None:
            try:
                entry = self._translator.submit_plain(pod)
            except (InvalidJob, SetAside) as error:
                return _none(nodes, str(error))
        task = Task(entry.id, 0, 0)
        self.ledger.put(pod.metadata.uid, pod.key, task, 0)
        awaited = self._driver.container(self.ledger.container_without_pod(task))
        if awaited is not None:  # decided before the pod was heard of
            if awaited.node in set(nodes):
                self.ledger.assign(awaited.id, pod.metadata.uid)
                return _only(awaited.node)
            self._driver.give_up(awaited.id)
        self._driver.backoffs.resume((entry.id, 0), self._driver.now())
        # A count instead of a comparison of thousands of names, checked below in the rare case of a mistake.
        everywhere = len(nodes) == len(self.scheduler.state.nodes)
        container = self._place(entry, pod, None if everywhere else tuple(nodes))
        if container is not None and container.node not in nodes:  # as many nodes, but unknown ones among them
            self._driver.give_up(container.id)
            container = self._place(entry, pod, tuple(nodes))
        return _only(container.node) if container is not None else self._refuse(entry, nodes)

    def _place(self, entry: JobEntry, pod: Pod, nodes: tuple[str, ...] | None) -> ContainerState | None:
        """Let the core choose among `nodes`, or among all (looking up thousands takes longer than choosing)."""
        offer = OfferAsked(self._driver.now(), entry.id, 0, nodes)
        self._driver.carry_out(self.scheduler.handle(offer), asking=pod.metadata.uid)
        return self._driver.container_of(pod.metadata.uid)

    def _refuse(self, entry: JobEntry, nodes: Sequence[str]) -> FilterAnswer:
        """Give every node's reason against the pod."""
        job = self.scheduler.state.jobs.get(entry.id)
        if job is None:
            return _none(nodes, "the pod is over")
        # Reasons are computed only for a refusal: no other answer shows them.
        refusals = self.scheduler.why_not(job.stages[0], nodes)
        final = {name: why.sentence for name, why in refusals.items() if not why.code.resolvable_by_preemption}
        failed = {name: why.sentence for name, why in refusals.items() if name not in final}
        idle = [name for name, why in refusals.items() if why.code is NodeCode.HAS_ROOM]
        if idle:  # the node is not the reason why the pod waits
            reasons = self.scheduler.reasons(entry.id)
            failed |= dict.fromkeys(
                idle, entry.in_owners_words(reasons[0].sentence) if reasons else "waits for its turn"
            )
        return FilterAnswer([], failed, final)

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """10 for the reserved node; a node without a name in the answer scores 0."""
        container = self._driver.container_of(pod.metadata.uid)
        return [(container.node, 10)] if container is not None and container.node in set(nodes) else []

    def preempt(self, pod: Pod, victims: Victims) -> Victims:
        """Nodes for kube-scheduler's preemption: only the reserved node, if any."""
        container = self._driver.container_of(pod.metadata.uid)
        if container is None:
            return victims
        return {name: here for name, here in victims.items() if name == container.node}


def _only(node: str) -> FilterAnswer:
    """The chosen node. The reasons against all others are left out: nobody would ever see them."""
    return FilterAnswer([node])


def _none(nodes: Sequence[str], why: str) -> FilterAnswer:
    return FilterAnswer([], {}, dict.fromkeys(nodes, why))
