"""Reasons of waiting tasks: a closed set of codes with a fixed precedence, the same in logs, reports and metrics.

Order is precedence: when several codes apply, the first is said. A code never oscillates on its own: each
is a function of state, not of the offer at hand. `sentence` turns a code and its numbers into English: facts, and no
advice, since only a trial can show a remedy.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Reason(enum.StrEnum):
    """Codes in order of precedence, each with the template of its sentence."""

    precedence: int
    """Rank among all reasons; 0 is said first."""
    template: str
    """The sentence, with the names of its numbers in braces."""

    TOO_LARGE = "too_large", "stage {stage} asks for {demand}, more than {whole}"
    NO_NODE_MATCHES = "no_node_matches", "stage {stage} {may} ({excluded}){wanted}"
    NO_NODES = "no_nodes", "the cluster has no node that takes containers"
    QUEUE_GONE = "queue_gone", "queue {queue} was removed before the job came, and lets no job in"
    QUEUE_FULL_OF_JOBS = (
        "queue_full_of_jobs",
        "queue {queue} has let in {jobs} and lets in no more than {limit} at once; {turn}",
    )
    USER_FULL_OF_JOBS = (
        "user_full_of_jobs",
        "queue {queue} has let in {jobs} of {who} and lets in no more than {limit} of each user at once; {turn}",
    )
    WAITS_FOR_ASK = "waits_for_ask", "the tasks of stage {stage} have not been asked for yet"
    WAITS_FOR_RETRY = "waits_for_retry", "the tasks of stage {stage} were tried in vain, and will be in the queue again"
    WAITS_FOR_STAGE = "waits_for_stage", "waits for stage {parent} ({left} of {tasks} tasks left{until})"
    WAITS_FOR_PILOTS = "waits_for_pilots", "waits for its pilot tasks ({left} of {pilots} left)"
    QUEUE_AT_LIMIT = (
        "queue_at_limit",
        "queue {queue} holds {held} of {resource} ({share} of the cluster) and may hold {limit}: {asked} more "
        "for stage {stage} would be over its limit{never}",
    )
    USER_AT_LIMIT = (
        "user_at_limit",
        "{who} holds {held} of {resource} in queue {queue} ({share} of the cluster), where each may hold "
        "{limit}: {asked} more for stage {stage} would be over the limit{never}",
    )
    OVER_LIMIT = "over_limit", "{what} {name} is at its limit on {resource} ({value} of {limit}; queue {queue})"
    ASSIGNED = "assigned", "assigned to node {node}, {before} before it, expected to start at {at}"
    AT_WORKERS = "at_workers", "the tasks of stage {stage} wait for slots of workers: {where}"
    HAS_RESERVATION = "has_reservation", "reserved for {stage}: {nodes}, where it is expected to start at {starts}"
    RESERVED = "reserved", "the room that it needs is reserved for job {other}{starts}"
    PLANNED_LATER = "planned_later", "waits {wait} s for {later}: worth {worth}; {now}"
    NO_ROOM = "no_room", "no node has {demand} free ({excluded})"
    NO_ROOM_FOR_GANG = (
        "no_room_for_gang",
        "the {tasks} tasks of stage {stage} start together, and there is room for {room}",
    )
    WAITS_FOR_LOCALITY = (
        "waits_for_locality",
        "waits for a node that holds its input ({missed} of {needed} {unit} gone by)",
    )
    OVER_SHARE = (
        "over_share",
        "{what} {name} holds {share} of {resource} per unit of weight, and {other} with {other_share} of "
        "{other_resource} is served first",
    )
    BEHIND_OTHERS = "behind_others", "there is room for it, and {turn}"
    WAITS_FOR_THOUGHT = (
        "waits_for_thought",
        "waits until its scheduler has thought about it (jobs in the queue before it: {ahead})",
    )
    WAITS_FOR_OFFER = "waits_for_offer", "waits until a node with room for it is on offer (nodes with room: {nodes})"

    def __new__(cls, code: str, template: str = "") -> Reason:
        """A member is its code, as any text is; its place in the class is its precedence."""
        # A member of a StrEnum is made with all values of its tuple; the code alone is its text.
        member = str.__new__(cls, code)
        member._value_, member.template, member.precedence = code, template, len(cls.__members__)
        return member


def sentence(reason: Reason, data: Mapping[str, object]) -> str:
    """The reason in an English sentence; missing numbers show as a question mark."""
    return reason.template.format_map(_Lenient(data))


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"
