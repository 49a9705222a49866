"""`python -m operators.extender --config FILE`: the brain and its extender."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys

from operators import log
from operators.access import InvalidKubeconfig
from operators.client import Client
from operators.config import InvalidConfig
from operators.extender.config import BrainConfig, load_brain
from operators.extender.history import HistoryUnavailable
from operators.extender.process import Process
from operators.serving.server import until_signalled


def main() -> int:
    """Exit code 0 after SIGTERM, 2 for a configuration that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m operators.extender", description="The scheduler's brain.")
    parser.add_argument("--config", required=True, help="YAML file (see manifests/base)")
    parser.add_argument("--check", action="store_true", help="check the configuration and end")
    asked = parser.parse_args()
    mistakes: list[str] = []
    try:
        config = load_brain(asked.config)
        if not asked.check:
            log.set_up(config.log_level)
            asyncio.run(until_signalled(_run(config)))
    except* (InvalidConfig, InvalidKubeconfig, HistoryUnavailable) as group:
        for error in group.exceptions:
            mistakes += getattr(error, "messages", [str(error)])
    for message in mistakes:
        sys.stderr.write(f"{message}\n")
    return 2 if mistakes else 0


async def _run(config: BrainConfig) -> None:
    identity = os.environ.get("POD_NAME") or socket.gethostname()
    async with Client.find(config.kubeconfig) as client:
        await Process(config, client, identity=identity).run()


if __name__ == "__main__":
    sys.exit(main())
