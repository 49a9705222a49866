"""The report of a run: settings of its charts."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from rm_emulator.scenario.schema.settings import Named, registered_errors
from rm_emulator.scenario.schema.values import Block, has_text_keys, refuse


class ChartEntry(Named):
    """Settings of a chart, inline."""

    kind: str
    """A name from `rm-emulator charts`; `rm-emulator charts NAME` tells its settings, e.g. `shares`."""

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        from rm_emulator.results.chart import charts  # with all of plotting's data, and few scenarios set a chart

        if has_text_keys(data):
            refuse(registered_errors(charts, data))
        return data


class Report(Block):
    """Content of the run's report. The report changes no result: finished runs stay valid with a different report."""

    charts: list[ChartEntry] = []
    """Settings of charts, each named once; all others keep their defaults, e.g. `[{kind: shares, queues: 20}]`."""

    @model_validator(mode="after")
    def _once(self) -> Report:
        kinds = [chart.kind for chart in self.charts]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise ValueError(f"chart '{kind}' is set {kinds.count(kind)} times: name it once")
        return self
