"""Why a task waits: one closed set of codes with a fixed precedence, the same in log, report, pod condition and metric.

Order is precedence: when several apply, the first is said. A code never oscillates on its own: each
is a function of state, not of the offer at hand. `sentence` turns a code and its numbers into English: facts, and no
advice, since what would help is not known before it is tried.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Reason(enum.StrEnum):
    """Codes in order of precedence."""

    TOO_LARGE = "too_large"
    NO_NODE_MATCHES = "no_node_matches"
    NO_NODES = "no_nodes"
    QUEUE_GONE = "queue_gone"
    QUEUE_FULL_OF_JOBS = "queue_full_of_jobs"
    USER_FULL_OF_JOBS = "user_full_of_jobs"
    WAITS_FOR_ASK = "waits_for_ask"
    WAITS_FOR_RETRY = "waits_for_retry"
    WAITS_FOR_STAGE = "waits_for_stage"
    WAITS_FOR_PILOTS = "waits_for_pilots"
    QUEUE_AT_LIMIT = "queue_at_limit"
    USER_AT_LIMIT = "user_at_limit"
    OVER_LIMIT = "over_limit"
    ASSIGNED = "assigned"
    AT_WORKERS = "at_workers"
    HAS_RESERVATION = "has_reservation"
    RESERVED = "reserved"
    PLANNED_LATER = "planned_later"
    NO_ROOM = "no_room"
    NO_ROOM_FOR_GANG = "no_room_for_gang"
    WAITS_FOR_LOCALITY = "waits_for_locality"
    OVER_SHARE = "over_share"
    BEHIND_OTHERS = "behind_others"
    WAITS_FOR_THOUGHT = "waits_for_thought"
    WAITS_FOR_OFFER = "waits_for_offer"

    @property
    def precedence(self) -> int:
        """0 is said first."""
        return _PRECEDENCE[self]


_PRECEDENCE: Final = {reason: rank for rank, reason in enumerate(Reason)}

_SENTENCES: Final[dict[Reason, str]] = {
    Reason.TOO_LARGE: "stage {stage} asks for {demand}, more than {whole}",
    Reason.NO_NODE_MATCHES: "stage {stage} {may} ({excluded}){wanted}",
    Reason.NO_NODES: "the cluster has no node that takes containers",
    Reason.QUEUE_GONE: "queue {queue} was removed before the job came, and lets no job in",
    Reason.QUEUE_FULL_OF_JOBS: ("queue {queue} has let in {jobs} and lets in no more than {limit} at once; {turn}"),
    Reason.USER_FULL_OF_JOBS: (
        "queue {queue} has let in {jobs} of {who} and lets in no more than {limit} of each user at once; {turn}"
    ),
    Reason.WAITS_FOR_ASK: "the tasks of stage {stage} have not been asked for yet",
    Reason.WAITS_FOR_RETRY: "the tasks of stage {stage} were tried in vain, and will be in the queue again",
    Reason.WAITS_FOR_STAGE: "waits for stage {parent} ({left} of {tasks} tasks left)",
    Reason.WAITS_FOR_PILOTS: "waits for its pilot tasks ({left} of {pilots} left)",
    Reason.QUEUE_AT_LIMIT: (
        "queue {queue} holds {held} of {resource} ({share} of the cluster) and may hold {limit}: "
        "{asked} more for stage {stage} would be over its limit{never}"
    ),
    Reason.USER_AT_LIMIT: (
        "{who} holds {held} of {resource} in queue {queue} ({share} of the cluster), "
        "where each may hold {limit}: {asked} more for stage {stage} would be over the limit{never}"
    ),
    Reason.OVER_LIMIT: "{what} {name} is at its limit on {resource} ({value} of {limit}; queue {queue})",
    Reason.ASSIGNED: "assigned to node {node}, {before} before it, expected to start at {at}",
    Reason.AT_WORKERS: "the tasks of stage {stage} wait for slots of workers: {where}",
    Reason.HAS_RESERVATION: "reserved for {stage}: {nodes}, where it is expected to start at {starts}",
    Reason.RESERVED: "the room that it needs is reserved for job {other}{starts}",
    Reason.PLANNED_LATER: "waits {wait} s for {later}: worth {worth}; {now}",
    Reason.NO_ROOM: "no node has {demand} free ({excluded})",
    Reason.NO_ROOM_FOR_GANG: "the {tasks} tasks of stage {stage} start together, and there is room for {room}",
    Reason.WAITS_FOR_LOCALITY: "waits for a node that holds its input ({missed} of {needed} {unit} gone by)",
    Reason.OVER_SHARE: (
        "{what} {name} holds {share} of {resource} per unit of weight, "
        "and {other} with {other_share} of {other_resource} is served first"
    ),
    Reason.BEHIND_OTHERS: "there is room for it, and {turn}",
    Reason.WAITS_FOR_THOUGHT: "waits until its scheduler has thought about it (jobs in the queue before it: {ahead})",
    Reason.WAITS_FOR_OFFER: "waits until a node with room for it is on offer (nodes with room: {nodes})",
}


def sentence(reason: Reason, data: Mapping[str, object]) -> str:
    """The reason in one English sentence; numbers that are missing show as a question mark."""
    return _SENTENCES[reason].format_map(_Lenient(data))


def parameters(reason: Reason) -> str:
    """The sentence's template, for documentation."""
    return _SENTENCES[reason]


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"
