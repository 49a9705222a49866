"""Entries of `policies`: a policy with its predictor and placer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator
from pydantic_core import InitErrorDetails

from rm_emulator.issues import did_you_mean, show_value
from rm_emulator.scenario.schema.settings import Named, error_at, registered_errors
from rm_emulator.scenario.schema.values import has_text_keys, refuse
from schedulers.core.compatible import needs_estimates
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry

_BESIDE = ("label", "predictor", "placement")


class PolicyEntry(Named):
    """A policy with its predictor and placer; its own settings stand inline."""

    kind: str
    """A name from `rm-emulator policies`; `rm-emulator policies NAME` tells its settings, e.g. `fifo`."""
    predictor: dict[str, Any] | None = None
    """`{kind: NAME, settings}` of `rm-emulator predictors`, for policies that order by estimates, e.g. `{kind:
    slearn}`.
    """
    placement: dict[str, Any] | None = None
    """`{kind: NAME, settings}` of `rm-emulator placers`; first_fit when left out, e.g. `{kind: best_fit}`."""

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        if not has_text_keys(data):
            return data
        beside = tuple(name for name in _BESIDE if name in cls.model_fields)
        own = {k: v for k, v in data.items() if k not in beside}
        errors = registered_errors(policies, own, beside)
        for name, registry in (("predictor", predictors), ("placement", placers)):
            part = data.get(name)
            if part is not None:
                errors += [_under(name, e) for e in _part_errors(registry, part)]
        refuse(errors)
        if data.get("predictor") is None and needs_estimates(own):
            raise ValueError(f"policy '{data['kind']}' orders jobs by estimated run time: give it a predictor")
        return data


def _part_errors(registry: Registry[Any], part: Any) -> list[InitErrorDetails]:
    if not isinstance(part, Mapping):
        text = f"{show_value(part)} is not accepted (write {{kind: NAME}})"
        hint = did_you_mean(f"{{kind: {part}}}") if isinstance(part, str) and part in registry else ""
        return [error_at((), text, part, hint)]
    return registered_errors(registry, part)


def _under(name: str, error: InitErrorDetails) -> InitErrorDetails:
    return InitErrorDetails(type=error["type"], loc=(name, *error.get("loc", ())), input=error["input"])
