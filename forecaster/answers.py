"""Answers from a memory, in a process of its own: plays take all of a core, and a play may take any time.

`python -m forecaster.answers` reads a memory, as [ms of its reading, its ConfigMaps] in JSON, from standard input, and
writes the answers to standard output.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from operators.client import stamp
from schedulers.core.errors import UserError
from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes

#: Draws of an answer. Each is a play of its own, so the CPU time of a round is bounded by so many plays.
DRAWS: Final = 20
#: Exit code for a memory that cannot be used, and for plays that failed.
_UNUSABLE: Final = 2
_FAILED: Final = 1

Answers = dict[str, ExpectedStatus]


class MemoryUnusable(Exception):
    """The memory is not whole, or of another version of rm-emulator."""


class NoAnswer(Exception):
    """The plays failed, or took too long."""


async def answers_of(config_maps: Sequence[dict[str, Any]], read_ms: int, *, within_s: float) -> Answers:
    """The answer for each live job, by its id in the core; leaves no process behind. read_ms: since the epoch.

    Raises MemoryUnusable, NoAnswer.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "forecaster.answers"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            found, said = await process.communicate(msgspec.json.encode((read_ms, config_maps)))
    except TimeoutError:
        raise NoAnswer(f"no answer within {within_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()  # the processes of the plays end with their parent
            await process.wait()
    if process.returncode == 0:
        return msgspec.json.decode(found, type=Answers)
    why = said.decode(errors="replace").strip().rpartition("\n")[2]
    if process.returncode == _UNUSABLE:
        raise MemoryUnusable(why)
    raise NoAnswer(why or f"the process of the plays ended with {process.returncode}")


def _played(read_ms: int, config_maps: Sequence[dict[str, Any]]) -> Answers:
    """In the process of its own. Raises InvalidInput, PlayFailed."""
    # Here, so that the process that stays does not hold the emulator in memory.
    from rm_emulator.forecasts.answers import Expected
    from rm_emulator.forecasts.asked import Question, ask_present
    from rm_emulator.forecasts.present import present_of

    def times(expected: Expected) -> ExpectedTimes:
        return ExpectedTimes(*(None if ms is None else stamp(ms) for ms in msgspec.structs.astuple(expected)))

    question = Question(at_ms=0, draws=DRAWS, earlier=0, tries=False)
    answer = ask_present(present_of(config_maps, read_ms=read_ms), question, at_once=1)
    as_of = stamp(answer.at_ms)
    return {
        job.job: ExpectedStatus(True, as_of, None if job.start is None else times(job.start), times(job.finish))
        if job.known
        else ExpectedStatus(False, as_of)
        for job in answer.jobs
    }


def main() -> int:
    """The exit code; the reason of another code than 0 is the last line on standard error."""
    from rm_emulator.forecasts.plays import PlayFailed

    try:
        answers = _played(*msgspec.json.decode(sys.stdin.buffer.read()))
    except UserError as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return _FAILED if isinstance(error, PlayFailed) else _UNUSABLE
    sys.stdout.buffer.write(msgspec.json.encode(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
