"""How a process of ours begins and ends: arguments, configuration, identity, signals, exit codes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import structlog

from operators.access import InvalidKubeconfig
from operators.client import Client
from operators.config import InvalidConfig
from operators.log import Level, set_up

log = structlog.get_logger()

#: The variable with the file of the termination message, unless the kubelet's own, and the number of bytes read by a
#: kubelet (`terminationMessagePath`; the kubelet makes the file, so a missing file is not made).
MESSAGE_FILE: Final = "RM_TERMINATION_LOG"
MESSAGE_BYTES: Final = 4096


class Settings(Protocol):
    """The common part of all processes' configurations."""

    @property
    def kubeconfig(self) -> str | None:
        """None in a cluster."""

    @property
    def log_level(self) -> Level:
        """Lowest level of logged lines."""


class Process(Protocol):
    """The running process."""

    async def run(self) -> None:
        """Until cancelled."""


S = TypeVar("S", bound=Settings)


def run_program(
    name: str,
    description: str,
    load: Callable[[str], S],
    process: Callable[[S, Client, str], Process],
    *unusable: type[Exception],
) -> int:
    """`python -m NAME --config FILE [--check]`. `unusable` has further errors of an unusable configuration.

    Exit code 0 after SIGTERM, 2 for an unusable configuration, 1 after the failure of a part. The reason for any other
    code than 0 is in the log, and where a kubelet looks for the termination message.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument(
        "--config", required=True, help="YAML file, or the manifest that it stands in (see manifests/base)"
    )
    parser.add_argument("--check", action="store_true", help="check the configuration and end")
    asked = parser.parse_args()

    refused: tuple[type[Exception], ...] = (InvalidConfig, InvalidKubeconfig, *unusable)
    mistakes: list[str] = []
    code = 0
    try:
        config = load(asked.config)
        if not asked.check:
            set_up(config.log_level)
            asyncio.run(until_signalled(_run(config, process)))
    except* refused as group:
        for error in group.exceptions:
            mistakes += getattr(error, "messages", [str(error)])
        code = 2
    except* Exception as group:
        why = cause_of(group)
        mistakes.append(f"{type(why).__name__}: {why}")
        log.error("a part has failed; the process ends", why=mistakes[-1], exc_info=group)
        code = code or 1
    for message in mistakes:
        sys.stderr.write(f"{message}\n")
    if code:
        _tell_kubelet("\n".join(mistakes))
    return code


def cause_of(error: BaseException) -> BaseException:
    """The first error of a group, however deep; any other error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _tell_kubelet(why: str) -> None:
    """Write the container's termination message, shown by `kubectl describe pod`, if a kubelet has made the file."""
    path = Path(os.environ.get(MESSAGE_FILE, "/dev/termination-log"))
    with contextlib.suppress(OSError), path.open("r+b") as file:
        file.write(why.encode(errors="replace")[:MESSAGE_BYTES])


async def _run(config: S, process: Callable[[S, Client, str], Process]) -> None:
    identity = os.environ.get("POD_NAME") or socket.gethostname()
    async with Client.find(config.kubeconfig) as client:
        await process(config, client, identity).run()


async def until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, and cancel it on SIGTERM or SIGINT, with time to drain; returns at the end."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    asked: list[str] = []

    def stop(name: str) -> None:
        log.info("stops", signal=name)
        asked.append(name)
        task.cancel()

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop, sign.name)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(sign)
