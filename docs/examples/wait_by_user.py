"""How long each user's jobs wait: a chart of the report from outside the tree."""

from __future__ import annotations

from typing import Annotated

import msgspec
import polars as pl

from rm_emulator.results.chart import TIMES, Cells, Chart, register
from rm_emulator.results.drawing import colour
from rm_emulator.results.table import number


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings."""

    users: Annotated[int, msgspec.Meta(ge=2, le=100, description="those that wait longest, so many of them")] = 20


@register(TIMES, order=35, source="an example", params=Params)
def wait_by_user(cells: Cells, params: Params) -> Chart | None:
    """A bar per user and label; None where all jobs are one user's."""
    means = {label: _means(cells, label) for label in cells.labels}
    users = sorted({user for of_label in means.values() for user in of_label})
    if len(users) < 2:
        return None
    longest = sorted(users, key=lambda user: -max(of_label.get(user, 0.0) for of_label in means.values()))
    left_out, users = len(users[params.users :]), sorted(longest[: params.users])
    some = f" The {len(users)} who waited longest; {left_out} more are left out." if left_out else ""
    bars = [
        {
            "type": "bar",
            "name": label,
            "x": users,
            "y": [of_label.get(user) for user in users],
            "marker": {"color": colour(index)},
            "hovertemplate": "%{x}: %{y:.3~s} s<extra>" + label + "</extra>",
        }
        for index, (label, of_label) in enumerate(means.items())
    ]
    layout = {"barmode": "group", "xaxis": {"title": {"text": "user"}}, "yaxis": {"title": {"text": "mean wait (s)"}}}
    return Chart(
        title="Waiting time by user",
        alt="Mean wait for the first task, a bar per user and label",
        caption=f"Mean time from submission to the first task, over the jobs of all seeds.{some}",
        variants=(("", {"data": bars, "layout": layout}),),
        head=("user", *cells.labels),
        rows=tuple((user, *(number(means[label].get(user)) for label in cells.labels)) for user in users),
    )


def _means(cells: Cells, label: str) -> dict[str, float]:
    jobs = pl.concat([cells.jobs[label, seed].select("user", "wait_s") for seed in cells.seeds]).drop_nulls()
    return dict(jobs.group_by("user").agg(pl.col("wait_s").mean()).iter_rows())
