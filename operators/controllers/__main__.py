"""`python -m operators.controllers --config FILE`: the reconcilers of DagJob and Queue."""

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
from operators.controllers.config import ControllersConfig, load_controllers
from operators.controllers.process import Process
from operators.serving.server import until_signalled


def main() -> int:
    """Exit code 0 after SIGTERM, 2 for a configuration that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m operators.controllers", description="The controllers.")
    parser.add_argument("--config", required=True, help="YAML file (see manifests/base)")
    parser.add_argument("--check", action="store_true", help="check the configuration and end")
    asked = parser.parse_args()
    mistakes: list[str] = []
    try:
        config = load_controllers(asked.config)
        if not asked.check:
            log.set_up(config.log_level)
            asyncio.run(until_signalled(_run(config)))
    except* (InvalidConfig, InvalidKubeconfig) as group:
        for error in group.exceptions:
            mistakes += getattr(error, "messages", [str(error)])
    for message in mistakes:
        sys.stderr.write(f"{message}\n")
    return 2 if mistakes else 0


async def _run(config: ControllersConfig) -> None:
    identity = os.environ.get("POD_NAME") or socket.gethostname()
    async with Client.find(config.kubeconfig) as client:
        await Process(config, client, identity=identity).run()


if __name__ == "__main__":
    sys.exit(main())
