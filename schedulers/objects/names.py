"""The names of our API objects, pods and gates; the same in both worlds."""

from __future__ import annotations

from typing import Final

GROUP: Final = "rm-emulator.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

#: `spec.schedulerName` of pods that join.
SCHEDULER: Final = "rm-scheduler"
#: The scheduling gate that the brain removes when a pod may start.
GATE: Final = f"{GROUP}/queue"

#: The queue of jobs without a named queue; needs no object.
DEFAULT_QUEUE: Final = "default"
#: Label of a joining pod (or its template): the queue of the pod.
QUEUE_LABEL: Final = f"{GROUP}/queue"
#: Labels of the pods of a DagJob: its name, the stage's name, the task's index and its attempt (from 0).
DAGJOB_LABEL: Final = f"{GROUP}/dagjob"
STAGE_LABEL: Final = f"{GROUP}/stage"
INDEX_LABEL: Final = f"{GROUP}/index"
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
#: Label (any joining object): the recurring name that feeds history; the object's own name by default.
RECURRING_LABEL: Final = f"{GROUP}/recurring"
#: Label (any joining object): the user on whose behalf it runs.
USER_LABEL: Final = f"{GROUP}/user"

#: Key of the taint of nodes on which only our pods are placed; they tolerate it, whatever its value.
RESERVED_TAINT: Final = f"{GROUP}/reserved"

#: Label of a node: its speed. A node of speed 2 runs a task in half the time; 1 where the label is missing.
SPEED_LABEL: Final = f"{GROUP}/speed"

#: Labels of a node set by clouds: a wish's device, and its rack.
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

#: Annotation of a pod template: the true run time in seconds, for engine and fake kubelets only.
RUN_SECONDS: Final = f"{GROUP}/run-seconds"
#: Annotation in the file of a snapshot: seconds since a job was made, or since a pod's containers started, as of then.
AGE_SECONDS: Final = f"{GROUP}/age-seconds"
#: Annotations of the pods of a Deployment: within so many seconds of its creation each should run, and whether one may
#: be stopped so that others get what is theirs ("false").
START_WITHIN: Final = f"{GROUP}/start-within-seconds"
PREEMPTIBLE: Final = f"{GROUP}/preemptible"
#: Annotation of a pod (fake kubelets only): exit code that its container ends with, 0 by default.
EXIT_CODE: Final = f"{GROUP}/exit-code"
#: Annotation of a DagJob: the plan of gangs that are being released, {stage name: {index: node}} as JSON.
GANG_PLAN: Final = f"{GROUP}/gang-plan"
#: Annotation of a joining pod: "false" lets it join without the gate.
WANTS_GATE: Final = f"{GROUP}/gate"
#: Annotation of a pod without gate: the node that is reserved for it (its change wakes kube-scheduler).
RESERVED_NODE: Final = f"{GROUP}/reserved-node"
#: Type of the pod condition that says why a pod waits.
WAITING_CONDITION: Final = f"{GROUP}/Waiting"
#: Type of the condition of a DagJob with pods refused by the API server.
PODS_REFUSED: Final = "PodsRefused"
#: Type of the condition of a DagJob with pods released and not taken.
PODS_UNPLACED: Final = "PodsUnplaced"

#: Label of the pod of the brain that leads ("true"): the Service that kube-schedulers call selects by it.
LEADER_LABEL: Final = f"{GROUP}/leader"

#: Names of the Leases.
BRAIN_LEASE: Final = "rm-brain-leader"
CONTROLLERS_LEASE: Final = "rm-controllers-leader"
#: The namespace of our own parts, where a pod does not say in which it is.
NAMESPACE: Final = "rm-system"
