"""Pods, as the API server tells of them: requests, constraints on nodes, gates, and how far each has come."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

import msgspec

from schedulers.core.errors import InvalidJob, InvalidQuantity
from schedulers.core.places import ANYWHERE, Places, Requirement, Toleration
from schedulers.core.resources import MOST_STEPS, Resources, Vector, parse_quantity, show_steps, to_steps
from schedulers.objects.meta import Stored, ours, to_ms, whole_number
from schedulers.objects.names import ATTEMPT_LABEL, GATE, WAITING_CONDITION, WANTS_GATE

#: Exit code of a failed pod whose containers tell none (evicted, deadline exceeded).
UNTOLD: Final = 1
#: Reasons of the condition PodScheduled with which kube-scheduler says that it cannot bind a pod as things are.
_VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
#: `status.reason` of a kubelet's refusal of a pod that another node, or the same node later, may take; reasons that
#: begin with OutOf (OutOfcpu, OutOfmemory, OutOfpods) are such refusals too.
_REFUSALS: Final = frozenset(
    {"Evicted", "NodeAffinity", "NodePorts", "TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError"}
)
_COMPARISONS: Final = ("Gt", "Lt")
Quantities = dict[str, str | int | float]


class ContainerResources(msgspec.Struct, gc=False):
    """Requests and limits; a limit without a request is the request (the API server fills it in, a file may not)."""

    requests: Quantities = {}
    limits: Quantities = {}


class Port(msgspec.Struct, gc=False):
    """Only a port on the host matters to scheduling."""

    hostPort: int = 0


class PodContainer(msgspec.Struct):
    """A container of a pod. restartPolicy Always marks an init container as a sidecar."""

    name: str = ""
    resources: ContainerResources = msgspec.field(default_factory=ContainerResources)
    restartPolicy: str = ""
    ports: list[Port] = []


class Gate(msgspec.Struct, frozen=True, gc=False):
    """A scheduling gate."""

    name: str


class SelectorRequirement(msgspec.Struct, gc=False):
    """A requirement of a node selector term."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class SelectorTerm(msgspec.Struct, gc=False):
    """Requirements, all to be met."""

    matchExpressions: tuple[SelectorRequirement, ...] = ()
    matchFields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(msgspec.Struct, gc=False):
    """Terms, any of them enough."""

    nodeSelectorTerms: tuple[SelectorTerm, ...] = ()


class NodeAffinity(msgspec.Struct, gc=False):
    """Required affinity only; preferences are kube-scheduler's matter."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Present(msgspec.Struct, frozen=True, gc=False):
    """A value with only its presence counted, because the core does not model the rest."""


class PodTerms(msgspec.Struct, gc=False):
    """(Anti)affinity between pods."""

    required: list[Present] = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=[])


class Affinity(msgspec.Struct, gc=False):
    """Of a pod."""

    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodTerms | None = None
    podAntiAffinity: PodTerms | None = None


class PodToleration(msgspec.Struct, gc=False):
    """As written in a pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Volume(msgspec.Struct, gc=False):
    """Only claims bind a pod to nodes."""

    persistentVolumeClaim: Present | None = None
    ephemeral: Present | None = None


class Spread(msgspec.Struct, gc=False):
    """A topology spread constraint."""

    whenUnsatisfiable: str = "DoNotSchedule"


class SchedulingGroup(msgspec.Struct, gc=False):
    """The PodGroup of a pod."""

    podGroupName: str = ""


class PodSpec(msgspec.Struct):
    """The scheduling part of a pod's spec."""

    nodeName: str = ""
    schedulerName: str = ""
    schedulingGates: tuple[Gate, ...] = ()
    nodeSelector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[PodToleration] = []
    containers: list[PodContainer] = []
    initContainers: list[PodContainer] = []
    overhead: Quantities = {}
    resources: ContainerResources | None = None
    priority: int = 0
    priorityClassName: str = ""
    restartPolicy: str = ""
    volumes: list[Volume] = []
    topologySpreadConstraints: list[Spread] = []
    resourceClaims: list[Present] = []
    schedulingGroup: SchedulingGroup | None = None


class Condition(msgspec.Struct, gc=False):
    """A condition of an object; of pods, nodes and our own objects alike."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None
    observedGeneration: int | msgspec.UnsetType = msgspec.UNSET

    def after(self, before: Condition | None, stamp: str) -> Condition:
        """The condition with the time of its status: the time of an equal status in `before`, or else `stamp`."""
        since = before.lastTransitionTime if before is not None and before.status == self.status else None
        self.lastTransitionTime = since or stamp
        return self


class Running(msgspec.Struct, gc=False):
    """Of a container."""

    startedAt: str | None = None


class Terminated(msgspec.Struct, gc=False):
    """Of a container."""

    exitCode: int = 0
    reason: str = ""
    startedAt: str | None = None
    finishedAt: str | None = None


class ContainerPhase(msgspec.Struct, gc=False):
    """State of a container."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, gc=False):
    """Status of a container."""

    name: str = ""
    state: ContainerPhase = msgspec.field(default_factory=ContainerPhase)


class PodStatus(msgspec.Struct):
    """How far a pod has come."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    startTime: str | None = None
    conditions: list[Condition] = []
    containerStatuses: list[ContainerStatus] = []
    nominatedNodeName: str = ""


class Pod(Stored):
    """A pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def dagjob_uid(self) -> str:
        """Uid of the controlling DagJob, or ''. Whether there is such a DagJob is another matter."""
        owner = self.metadata.owner
        return owner.uid if owner is not None and owner.kind == "DagJob" else ""

    @property
    def group_key(self) -> str:
        """`namespace/name` of the pod's PodGroup, or ''. Whether there is such a PodGroup is another matter."""
        group = self.spec.schedulingGroup
        return f"{self.metadata.namespace}/{group.podGroupName}" if group is not None and group.podGroupName else ""

    @property
    def attempt(self) -> int:
        """Number of the attempt at the pod's task, from 0."""
        return whole_number(self.metadata.labels.get(ATTEMPT_LABEL, "0")) or 0

    @property
    def gate_index(self) -> int | None:
        """Place of our gate among the pod's gates; None without our gate."""
        return next((i for i, gate in enumerate(self.spec.schedulingGates) if gate.name == GATE), None)

    @property
    def wants_gate(self) -> bool:
        """Whether the pod came with our gate, open by now or not."""
        return self.metadata.annotations.get(WANTS_GATE) != "false"

    @property
    def is_gated(self) -> bool:
        """Whether the pod waits for us."""
        return self.gate_index is not None

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has ended."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_running(self) -> bool:
        """Whether its containers run."""
        return self.status.phase == "Running"

    @property
    def started_ms(self) -> int | None:
        """Start of the first container, ms since the epoch; whole seconds, as kubelets stamp times.

        `status.startTime` is the kubelet's admission of the pod, images and init containers still to come: the stand-in
        only for an ended pod without start times of containers.
        """
        stamps = [to_ms(s.startedAt) for s in self._states() if s.startedAt]
        told = [ms for ms in stamps if ms is not None]
        if told:
            return min(told)
        return to_ms(self.status.startTime) if self.is_terminal else None

    @property
    def finished_ms(self) -> int | None:
        """When its last container ended."""
        stamps = [to_ms(s.state.terminated.finishedAt) for s in self.status.containerStatuses if s.state.terminated]
        return max((ms for ms in stamps if ms is not None), default=None)

    @property
    def waiting(self) -> Condition | None:
        """The pod's condition about its waiting, as written by us."""
        return next((seen for seen in self.status.conditions if seen.type == WAITING_CONDITION), None)

    @property
    def exit_code(self) -> int | None:
        """0 after success, the first other exit code (of 32 bits) after a failure; None before the end."""
        if not self.is_terminal:
            return None
        if self.status.phase == "Succeeded":
            return 0
        codes = [s.state.terminated.exitCode for s in self.status.containerStatuses if s.state.terminated]
        return next((code for code in codes if code and -(2**31) <= code < 2**31), UNTOLD)

    @property
    def unbound(self) -> Condition | None:
        """kube-scheduler's condition after a try to bind the pod in vain; None: no such condition."""
        if self.spec.nodeName or self.is_terminal:
            return None
        said = (c for c in self.status.conditions if c.type == "PodScheduled" and c.status == "False")
        return next((c for c in said if c.reason in _VERDICTS), None)

    @property
    def verdict(self) -> str | None:
        """Reason of a try to bind in vain, in kube-scheduler's own words; None without such a try."""
        said = self.unbound
        return f"{said.reason}: {said.message}" if said is not None else None

    @property
    def is_unschedulable(self) -> bool:
        """Whether kube-scheduler has found no node; its own error (SchedulerError) does not count."""
        said = self.unbound
        return said is not None and said.reason == "Unschedulable"

    @property
    def refusal(self) -> str | None:
        """Refusal in the kubelet's own words; None without a refusal, or if any container ran."""
        status = self.status
        if status.phase != "Failed" or self._states():
            return None
        if status.reason not in _REFUSALS and not status.reason.startswith("OutOf"):
            return None
        return f"{status.reason}: {status.message}" if status.message else status.reason

    @property
    def narrowed_to(self) -> str | None:
        """The only node named by field in the pod's required affinity, if any."""
        affinity = self.spec.affinity.nodeAffinity if self.spec.affinity is not None else None
        for term in affinity.required.nodeSelectorTerms if affinity is not None and affinity.required else ():
            for field in term.matchFields:
                if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                    return field.values[0]
        return None

    def _states(self) -> list[Running | Terminated]:
        states = (status.state for status in self.status.containerStatuses)
        return [state for s in states if (state := s.terminated or s.running) is not None]


class PodTemplateMeta(msgspec.Struct):
    """Metadata of a template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        self.annotations = ours(self.annotations)


class PodTemplate(msgspec.Struct):
    """Template of a stage's pods."""

    spec: PodSpec
    metadata: PodTemplateMeta = msgspec.field(default_factory=PodTemplateMeta)


def demand(spec: PodSpec, resources: Resources) -> Vector:
    """Demand of a pod, by Kubernetes' rule, rounded up; `pods` counts 1.

    The larger of all containers together (sidecars included) and of each init container with the sidecars started
    before; plus overhead. Requests at pod level take the place of its containers' requests. Resources outside the
    cluster's vector are left out (`unmodelled` names them). Raises InvalidJob for an unreadable quantity (then the
    cause), or for more in all than a vector can hold.
    """
    asked = tuple(1 if name == "pods" else _demand_of(name, spec) for name in resources.names)
    for name, amount in zip(resources.names, asked, strict=True):
        if amount > MOST_STEPS:  # many containers, each of which was readable
            most = show_steps(name, MOST_STEPS)
            raise InvalidJob(f"its containers ask for {show_steps(name, amount)} of {name} in all ({most} at most)")
    return asked


def _demand_of(name: str, spec: PodSpec) -> int:
    try:
        return _together(name, spec)
    except InvalidQuantity as error:
        raise InvalidJob(f"{name}: {error}") from error


def _together(name: str, spec: PodSpec) -> int:
    overhead = _steps(name, spec.overhead)
    whole = spec.resources
    if whole is not None and (name in whole.requests or name in whole.limits):
        return _asked(name, whole) + overhead
    together = sum(_asked(name, container.resources) for container in spec.containers)
    sidecars = peak = 0
    for container in spec.initContainers:
        asked = _asked(name, container.resources)
        if container.restartPolicy == "Always":
            sidecars += asked
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + asked)
    return max(together + sidecars, peak) + overhead


def _asked(name: str, of: ContainerResources) -> int:
    return _steps(name, of.requests if name in of.requests else of.limits)


def _steps(name: str, quantities: Quantities) -> int:
    return to_steps(name, quantities[name], round_up=True) if name in quantities else 0


def places(spec: PodSpec) -> Places:
    """Where a pod may run: nodeSelector, required node affinity, tolerations."""
    selector = tuple(Requirement(key, "In", (value,)) for key, value in sorted(spec.nodeSelector.items()))
    required = spec.affinity.nodeAffinity.required if spec.affinity and spec.affinity.nodeAffinity else None
    terms: tuple[tuple[Requirement, ...], ...] = (selector,) if selector else ()
    if required is not None:
        # A term without any requirement matches no node, whatever the selector says.
        written = [term for term in map(_term, required.nodeSelectorTerms) if term]
        terms = tuple((*selector, *term) for term in written) or ((),)
    tolerations = tuple(_toleration(t) for t in spec.tolerations)
    return Places(terms, tolerations) if terms or tolerations else ANYWHERE


def _term(term: SelectorTerm) -> tuple[Requirement, ...]:
    labels = (Requirement(r.key, r.operator, r.values) for r in term.matchExpressions)
    fields = (Requirement(r.key, r.operator, r.values, field=True) for r in term.matchFields)
    return (*labels, *fields)


def _toleration(t: PodToleration) -> Toleration:
    # A comparison of numbers (KEP-5471) is read in its widest sense: kube-scheduler will tell (see `unmodelled`).
    return Toleration(t.key, "Exists" if t.operator in ("Exists", *_COMPARISONS) else "Equal", t.value, t.effect)


def unmodelled(spec: PodSpec, resources: Resources) -> str | None:
    """The first constraint unknown to the core, in a few words; None: all are known."""
    for what, has_it in (
        ("pod affinity", spec.affinity and spec.affinity.podAffinity and spec.affinity.podAffinity.required),
        (
            "pod anti-affinity",
            spec.affinity and spec.affinity.podAntiAffinity and spec.affinity.podAntiAffinity.required,
        ),
        ("topology spread", any(s.whenUnsatisfiable == "DoNotSchedule" for s in spec.topologySpreadConstraints)),
        ("a toleration's comparison", any(t.operator in _COMPARISONS for t in spec.tolerations)),
        ("resource claims", spec.resourceClaims),
        ("volume claims", any(v.persistentVolumeClaim or v.ephemeral for v in spec.volumes)),
        ("host ports", any(p.hostPort for c in (*spec.containers, *spec.initContainers) for p in c.ports)),
    ):
        if has_it:
            return what
    unknown = unknown_resource(spec, resources.names)
    return f"resource {unknown}" if unknown is not None else None


def unknown_resource(spec: PodSpec, names: Collection[str]) -> str | None:
    """The first resource asked for by a pod and not among `names`."""
    whole = (spec.resources,) if spec.resources is not None else ()
    asked = [c.resources for c in (*spec.containers, *spec.initContainers)] + list(whole)
    for quantities in (*(of.limits | of.requests for of in asked), spec.overhead):
        for name, amount in quantities.items():
            if name not in names and not _is_nothing(amount):
                return name
    return None


def _is_nothing(amount: str | int | float) -> bool:
    """Whether an amount is 0; an unreadable amount may be anything, so not nothing."""
    try:
        return parse_quantity(amount) == 0
    except InvalidQuantity:
        return False
