"""The brain's process: a part that breaks is made anew, and never missing in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from operators.client import Client
from operators.extender.config import BrainConfig, ExtenderPort
from operators.extender.process import Process


async def breaks() -> None:
    raise RuntimeError("a mistake of ours")


async def ends() -> None:
    return


@pytest.mark.parametrize(("loop", "terms"), [(breaks, 1), (ends, 0)])
def test_a_loop_that_breaks_ends_the_term_and_a_new_one_begins_without_the_snapshot(
    loop: Callable[[], Awaitable[None]], terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []

    async def lead(self: Process, *, use_snapshot: bool) -> None:
        begun.append(use_snapshot)

    async def main() -> None:
        process = Process(
            BrainConfig(extender=ExtenderPort(tls=None), policy={"kind": "fifo"}),
            cast(Client, None),
            identity="brain-0",
        )
        await process._keep_up(loop)
        if process._ending is not None:
            await process._ending

    monkeypatch.setattr(Process, "_lead", lead)
    asyncio.run(main())
    assert begun == [False] * terms
