"""Answers in a process of its own: plays take all of a core, and a play may take any time.

The process, `python -m forecaster.answers`, keeps the brain's core from one question to the next, and patches the core
by what the brain has stored since. A question is answered in a fork, so nothing that is played changes the core.
Questions and answers are JSON behind their length (8 bytes), on standard input and output.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from operators.client import stamp
from schedulers.core.errors import UserError
from schedulers.core.following import Astray
from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes
from schedulers.objects.memory import LogPlace

if TYPE_CHECKING:
    from rm_emulator.forecasts.present import FollowedPresent

#: Draws of an answer. Each is a play of its own, so the CPU time of a round is bounded by so many plays.
DRAWS: Final = 20
_LENGTH: Final = 8

Answers = dict[str, ExpectedStatus]


class MemoryUnusable(Exception):
    """The memory is not whole, or of another version of rm-emulator."""


class WentAstray(Exception):
    """The core that was kept is not the brain's: all of the memory has to be read."""


class NoAnswer(Exception):
    """The plays failed, or took too long."""


class Answered(NamedTuple):
    """The answer for each live job, by its id in the core, and where in the log the core that is kept stands."""

    answers: Answers
    place: LogPlace


class _Question(msgspec.Struct):
    read_ms: int
    whole: bool
    config_maps: Sequence[dict[str, Any]]


class _Reply(msgspec.Struct):
    answers: Answers | None = None
    place: LogPlace = LogPlace("", 0)
    error: Literal["", "unusable", "astray", "failed"] = ""
    why: str = ""


class Plays:
    """The process of the plays, begun when first asked."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Id of the process, None where there is none."""
        return None if self._process is None else self._process.pid

    async def __call__(
        self, config_maps: Sequence[dict[str, Any]], read_ms: int, *, whole: bool, within_s: float
    ) -> Answered:
        """The answers. read_ms: ms since the epoch. whole: the memory is all there is, not what came since.

        After an error no core is kept. Raises MemoryUnusable, WentAstray, NoAnswer.
        """
        question = msgspec.json.encode(_Question(read_ms, whole, config_maps))
        reply = None
        try:
            async with asyncio.timeout(within_s):
                reply = await self._ask(question)
        except TimeoutError:
            raise NoAnswer(f"no answer within {within_s:g} s") from None
        except (OSError, asyncio.IncompleteReadError):
            code = await self._process.wait() if self._process is not None else None
            raise NoAnswer(f"the process of the plays ended with {code}") from None
        finally:
            if reply is None:
                await self.end()
        if reply.error:
            raise _ERRORS[reply.error](reply.why)
        return Answered(reply.answers or {}, reply.place)

    async def _ask(self, question: bytes) -> _Reply:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "forecaster.answers"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        to.write(len(question).to_bytes(_LENGTH) + question)
        await to.drain()
        size = int.from_bytes(await back.readexactly(_LENGTH))
        return msgspec.json.decode(await back.readexactly(size), type=_Reply)

    async def end(self) -> None:
        """Kill the process, if there is one; its own processes end with their parent."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


_ERRORS: Final = {"unusable": MemoryUnusable, "astray": WentAstray, "failed": NoAnswer}


class _Keeper:
    """The process of the plays: the present that is kept."""

    _present: FollowedPresent | None = None

    def reply(self, question: _Question) -> _Reply:
        # Here, so that the process that stays does not hold the emulator in memory.
        from rm_emulator.forecasts.present import FollowedPresent, present_of

        present, self._present = self._present, None
        try:
            if question.whole:
                present = FollowedPresent(present_of(question.config_maps, read_ms=question.read_ms))
            elif present is None:
                return _Reply(error="astray", why="no core is kept")
            else:
                present.go_on(question.config_maps)
        except Astray as error:
            return _Reply(error="astray", why=_line(error))
        except UserError as error:
            return _Reply(error="unusable", why=_line(error))
        self._present = present
        ours, theirs = multiprocessing.Pipe(duplex=False)
        fork = multiprocessing.get_context("fork").Process(target=_answer, args=(present, question.read_ms, theirs))
        fork.start()
        theirs.close()
        try:
            return msgspec.json.decode(ours.recv_bytes(), type=_Reply)
        except EOFError:
            return _Reply(error="failed", why="the process of the question ended without a word")
        finally:
            fork.join()
            ours.close()


def _answer(present: FollowedPresent, read_ms: int, to: Any) -> None:
    """In a fork."""
    from rm_emulator.forecasts.plays import PlayFailed
    from rm_emulator.program import end_with_parent

    end_with_parent()
    try:
        reply = _Reply(_played(present, read_ms), present.place)
    except UserError as error:
        reply = _Reply(error="failed" if isinstance(error, PlayFailed) else "unusable", why=_line(error))
    to.send_bytes(msgspec.json.encode(reply))


def _played(present: FollowedPresent, read_ms: int) -> Answers:
    """The answers. Raises InvalidInput, PlayFailed."""
    from rm_emulator.forecasts.answers import Expected
    from rm_emulator.forecasts.asked import Question, ask_paused

    def times(expected: Expected) -> ExpectedTimes:
        return ExpectedTimes(*(None if ms is None else stamp(ms) for ms in msgspec.structs.astuple(expected)))

    question = Question(at_ms=0, draws=DRAWS, earlier=0, tries=False)
    answer = ask_paused(present.paused(read_ms), question, at_once=1)
    as_of = stamp(answer.at_ms)
    return {
        job.job: ExpectedStatus(True, as_of, None if job.start is None else times(job.start), times(job.finish))
        if job.known
        else ExpectedStatus(False, as_of)
        for job in answer.jobs
    }


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def main() -> int:
    """Answer until standard input ends."""
    keeper, asked, said = _Keeper(), sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever solvers print is no answer
    while len(length := asked.read(_LENGTH)) == _LENGTH:
        question = msgspec.json.decode(asked.read(int.from_bytes(length)), type=_Question)
        reply = msgspec.json.encode(keeper.reply(question))
        said.write(len(reply).to_bytes(_LENGTH) + reply)
        said.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
