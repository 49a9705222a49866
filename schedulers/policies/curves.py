"""Shortest job first, and each job as wide as its speed-up is worth to the jobs behind: a fit to TPC-H on Spark."""

from __future__ import annotations

from schedulers.core.policy import policies
from schedulers.kit.curves import Curves, CurvesSettings


@policies.register("curves", source="rm-emulator; fitted to Decima's batch setting (SIGCOMM'19, section 7.2)")
class SpeedUpCurves(Curves):
    """Serves the job with the least T(1) x part of its work left first, each up to the width that pays.

    T(n) is the time that the job would take alone on n executors, by a formula of its estimated work, longest path,
    stages and tasks. A job with b jobs behind it is served up to the n of 1, 2, 3, 4, 5, 9, 19, 39, 49 with the least
    T(n) (1 + 4 exp(-1.2 (y - 1/2)) b^0.81 n / N), where y is the part of its tasks that has not started and N the
    number of executors in the cluster. On more than 49 executors further widths grow by half.

    Executors stay with a job that has tasks to start. Between two stages, idle executors leave for jobs earlier in the
    order that are below their number. Room left by jobs below their number goes to the others in the same order; inside
    a job the critical stage comes first.

    The formula is a fit to Spark's TPC-H jobs with executors that outlive tasks, as decima-sim draws them; the widths
    just below 10, 20, 40 and 50 are cheap in decima-sim alone, whose interpolation between measured levels is inverted
    there. With `inverted_levels: false` the fit is to executors without that slip, with widths 1, 2, 3, 5, 8, 10, 20,
    40, 50. For jobs unlike these (a minute of work in all) the formula promises nothing for wider jobs, so they stay
    narrow. Where containers end with their tasks, width costs nothing: the job with the least estimated work left is
    first, without a limit.

    With `learned: true` a job holds idle executors up to its number alone, and the others serve other jobs. A job below
    its number gets no executor for the last 10 tasks that wait in a stage per executor with a task of the stage, as
    long as other jobs lack executors. The price is 6.8 exp(-2.7 (y - 1/2)) b^0.7 n / N. Where containers end with their
    tasks, the stage with the least work left of its job x p^1.5 is first, where p is the part of the nodes large enough
    for the stage's tasks: on equal nodes nothing changes.

    Jobs without an estimate come last, each on up to 8 executors; as long as there are any, no executor leaves its job
    between two stages, since the order changes with each estimate. The policy needs a predictor.
    """

    class Params(CurvesSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

    params: Params
