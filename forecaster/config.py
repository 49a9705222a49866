"""The configuration of the forecaster's process, as it stands in its ConfigMap."""

from __future__ import annotations

from pathlib import Path

import msgspec

from operators.config import Millis, load, own_namespace
from operators.log import Level
from operators.serving.ports import ExtenderPort, ManagementPort


class ForecasterConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All settings of `python -m forecaster`."""

    namespace: str = msgspec.field(default_factory=own_namespace)
    """Namespace of the brain's memory; by default that of the own pod."""
    every: Millis = Millis(10_000)
    """Shortest time between the beginnings of two rounds of plays."""
    answers: ExtenderPort | None = None
    """Where `GET /v1/expected` is answered, plain pods included, to clients as of brain's verbs; None: nowhere."""
    management: ManagementPort = ManagementPort(port=8083)
    kubeconfig: str | None = None
    """Kubeconfig files, `A:B`; None in a cluster, where the ServiceAccount counts."""
    log_level: Level = "info"

    def __post_init__(self) -> None:
        if self.every < 1000:
            raise ValueError(f"every: {self.every}ms would play without a pause (at least 1s)")


def load_forecaster(path: Path | str) -> ForecasterConfig:
    """Read and check the file. Raises InvalidConfig with every mistake in the file."""
    return load(path, ForecasterConfig, config_map="rm-forecaster")
