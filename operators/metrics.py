"""The metrics of all processes, in one place, so that names and labels are decided together.

The metrics are in the package's own registry, which also has memory, file descriptors and garbage collection of the
process.

Base units, `_total` on counters, and no pod, job or node as a label: the number of time series must not grow with the
work. `table()` lists them for the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

#: From 0.5 ms to 5 s: kube-scheduler waits 5 s by default, a filter call takes a few ms.
_CALL_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
#: From 5 ms to a minute: a write to the API server, with its retries.
_WRITE_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# -- the extender's calls -----------------------------------------------------------------------

REQUESTS: Final = Counter(
    "rm_extender_requests_total",
    "Calls of kube-scheduler; outcome: ok, none (no node), error, bad, large, late, not_ready.",
    ["verb", "outcome"],
)
REQUEST_DURATION: Final = Histogram(
    "rm_extender_request_duration_seconds", "From the first byte of a call to its answer.", ["verb"], buckets=_CALL_S
)
DROPPED_NAMES: Final = Counter(
    "rm_extender_dropped_names_total",
    "Nodes or pods left out of an answer because the call did not name them.",
    ["verb"],
)
REFUSED_CLIENTS: Final = Counter(
    "rm_extender_refused_clients_total", "Calls whose client certificate is valid but names nobody on the list."
)
CUT_CONNECTIONS: Final = Counter(
    "rm_cut_connections_total",
    "Connections closed before the head of a request was complete; why: slow, large.",
    ["why"],
)
CERTIFICATE_EXPIRY: Final = Gauge(
    "rm_certificate_expiry_seconds", "Seconds until the certificate in use expires; below zero once it has."
)
CERTIFICATE_RELOADS: Final = Counter(
    "rm_certificate_reloads_total",
    "Changed certificate files; outcome: ok, refused (the old pair stays in use).",
    ["outcome"],
)

# -- the cache ----------------------------------------------------------------------------------

STALENESS: Final = Gauge("rm_cache_staleness_seconds", "Seconds since the most silent watch last said anything.")
RELISTS: Final = Counter("rm_relists_total", "Lists made anew because a watch could not go on.", ["kind"])
WATCH_ERRORS: Final = Counter("rm_watch_errors_total", "Watches that ended in an error.", ["kind"])

SET_ASIDE: Final = Gauge("rm_objects_aside", "Objects of which the core is not told, see their conditions.")
SET_ASIDE_TOTAL: Final = Counter(
    "rm_objects_set_aside_total",
    "Objects set aside; reason: Unreadable, QueueNotFound, QueueNotAllowed, BrokeTheBrain.",
    ["kind", "reason"],
)
UNREADABLE: Final = Counter(
    "rm_unreadable_objects_total",
    "Objects of the API server that are left out because they are not typed as expected.",
    ["kind"],
)
UNHEARD: Final = Counter("rm_unheard_changes_total", "Changes that could not be taken in: a mistake of ours.", ["kind"])

# -- the brain ----------------------------------------------------------------------------------

LEADER: Final = Gauge("rm_leader", "1 while this replica leads, otherwise 0.")
PENDING: Final = Gauge("rm_pending_pods", "Tasks that wait for resources.", ["queue"])
RESERVATIONS: Final = Gauge("rm_reservations", "Containers that hold room on a node: granted, starting or running.")
DECISIONS: Final = Counter(
    "rm_decisions_total",
    "Decisions of the core by kind (Place, Hold, Preempt, ...), those on kube-scheduler's asking included.",
    ["decision"],
)
HOLDS: Final = Gauge("rm_holds", "Jobs that wait, by the code of the reason.", ["reason"])
RELEASES: Final = Counter(
    "rm_releases_total", "Gates removed or given up; outcome: ok, gone, refused, retried.", ["outcome"]
)
RELEASE_DURATION: Final = Histogram(
    "rm_release_duration_seconds",
    "From the decision to the API server's confirmation that the gate is gone.",
    buckets=_WRITE_S,
)
RELEASES_WAITING: Final = Gauge("rm_releases_waiting", "Gates decided on but not removed yet.")
GANGS_PARTIAL: Final = Gauge("rm_gangs_partial", "Gangs of which some pods are released and some still gated.")
CONDITIONS: Final = Counter(
    "rm_conditions_total",
    "Conditions, reasons, Events, queues' figures written; outcome: ok, gone, error.",
    ["outcome"],
)
RESTORES: Final = Counter(
    "rm_restores_total",
    "Times the core was rebuilt, by cause; anything but a change of leaders is worth a look.",
    ["cause"],
)
SNAPSHOT_BYTES: Final = Gauge("rm_snapshot_bytes", "Size of the last snapshot, before compression.")

QUEUE_PENDING: Final = Gauge(
    "rm_queue_pending_pods", "Tasks of a queue and those below it that wait for room.", ["queue"]
)
QUEUE_RUNNING: Final = Gauge("rm_queue_running_pods", "Tasks of a queue and those below it that hold room.", ["queue"])
QUEUE_SHARE: Final = Gauge(
    "rm_queue_share", "Dominant share of the cluster that a queue and those below it hold, 0 to 1.", ["queue"]
)

# -- the controllers ----------------------------------------------------------------------------

RECONCILES: Final = Counter("rm_reconciles_total", "Objects brought in line; outcome: ok, error.", ["kind", "outcome"])
RECONCILE_DURATION: Final = Histogram(
    "rm_reconcile_duration_seconds", "One object brought in line, with its writes.", ["kind"], buckets=_WRITE_S
)
WORK_QUEUE: Final = Gauge("rm_work_queue", "Objects that wait to be brought in line.", ["kind"])
PODS_CREATED: Final = Counter("rm_pods_created_total", "Pods created; cause: first, retry, recreated.", ["cause"])


# -- the forecaster -----------------------------------------------------------------------------

FORECASTS: Final = Counter(
    "rm_forecasts_total", "Answers written to a DagJob, or taken away; outcome: ok, gone, error.", ["outcome"]
)
FORECAST_ROUND: Final = Gauge("rm_forecast_round_seconds", "Length of the last round, from its memory to its answers.")
FORECAST_FAILURES: Final = Counter(
    "rm_forecast_rounds_failed_total",
    "Rounds without an answer; part: memory (not whole, or of another version), astray, plays, api.",
    ["part"],
)
FORECAST_RELOADS: Final = Counter(
    "rm_forecast_reloads_total",
    "Rounds that read all of the brain's memory; cause: first (after a start or a failed round), leader, gap.",
    ["cause"],
)
FORECAST_HELD: Final = Gauge(
    "rm_forecast_held", "Of the jobs that ended last, the share whose first 80 % interval held the end, 0 to 1."
)
FORECAST_ERROR: Final = Gauge(
    "rm_forecast_error_seconds", "Of the same jobs, the median distance between the first answer and the end."
)
# Nothing is known before the first end, and 0 would be an answer.
FORECAST_HELD.set(math.nan)
FORECAST_ERROR.set(math.nan)


def show(gauge: Gauge, values: Mapping[str, float]) -> None:
    """Set a gauge of one label by that label's values; values no longer given disappear."""
    gauge.clear()
    for label, value in values.items():
        gauge.labels(label).set(value)


def exposition() -> bytes:
    """All metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)


def table() -> str:
    """All our metrics as a Markdown table: name, type, labels, meaning."""
    rows = ["| Metric | Type | Labels | Meaning |", "| --- | --- | --- | --- |"]
    for metric in sorted(globals().values(), key=lambda m: str(getattr(m, "_name", ""))):
        if isinstance(metric, Counter | Gauge | Histogram):
            name = metric._name + ("_total" if metric._type == "counter" else "")
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            rows.append(f"| `{name}` | {metric._type} | {labels} | {metric._documentation} |")
    return "\n".join(rows) + "\n"
