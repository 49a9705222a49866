"""The report of a run: settings of its charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from rm_emulator.results.chart import charts
from rm_emulator.scenario.schema.settings import registered_errors
from rm_emulator.scenario.schema.values import Block


class ChartEntry(BaseModel):
    """Settings of one chart, inline."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, use_attribute_docstrings=True)

    kind: str
    """A name that `rm-emulator charts` lists; `rm-emulator charts NAME` tells its settings, e.g. `shares`."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings with the kind, as the registry parses them."""
        return {"kind": self.kind, **(self.model_extra or {})}

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and all(isinstance(key, str) for key in data):
            errors = registered_errors(charts, data)
            if errors:
                raise ValidationError.from_exception_data("chart", errors)
        return data


class Report(Block):
    """What the report of the run shows. It changes no result: with another one all runs are still there."""

    charts: list[ChartEntry] = []
    """Settings of charts, each named once; all others are drawn as ever, e.g. `[{kind: shares, queues: 20}]`."""

    @model_validator(mode="after")
    def _once(self) -> Report:
        kinds = [chart.kind for chart in self.charts]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise ValueError(f"chart '{kind}' is set {kinds.count(kind)} times: name it once")
        return self
