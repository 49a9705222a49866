"""Node heartbeats from one ring ordered by phase: one outstanding SimPy event, whatever the number of nodes.

A node in the ring beats at its phase plus every multiple of the interval; a node outside the ring sleeps. A naive
engine keeps every node in the ring; a skipping engine keeps the nodes with beats that could change something (YARN
notes, section 5.4). Both meet the same beats in the same order: by time, then by node.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rm_emulator.engine.calendar import BEAT, Calendar, priority

#: Beats that pass together at most, for the sake of memory.
_TOGETHER: Final = 4096
#: Beside 0 and 1 for nodes outside and inside: a node that nobody puts on the ring.
_MUTE: Final = 2


class Ring:
    """Nodes that beat, and the next beat. Calls `beat(node)` at each beat, from `begin` on (ms, whole intervals).

    idle: whether beats change nothing before the next entry of the calendar. Such beats, (time, node), go to `let_pass`
    together.
    """

    def __init__(
        self,
        calendar: Calendar,
        phases: list[int],
        interval: int,
        beat: Callable[[int], None],
        *,
        begin: int = 0,
        idle: Callable[[], bool] | None = None,
        let_pass: Callable[[Sequence[tuple[int, int]]], object] = len,
    ) -> None:
        self._calendar, self._interval, self._beat, self._begin = calendar, interval, beat, begin
        self._idle, self._let_pass = idle, let_pass
        self._phase = phases
        self._members: list[tuple[int, int]] = []
        self._inside = bytearray(len(phases))
        self._last = (-1, -1)  # time and node of the latest beat
        self._next: tuple[int, int] | None = None
        self._generation = 0
        self._changed = False  # since the calendar was armed

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, node: int) -> bool:
        return self._inside[node] == 1

    def take_phases(self, former: Ring) -> None:
        """Let the first nodes beat at the times of another ring's nodes."""
        # Out and in again, since members stand in the order of their phases.
        members = [node for _, node in self._members]
        self.clear()
        self._phase[: len(former._phase)] = former._phase
        self.add_all(members)

    def add(self, node: int) -> None:
        """Let a node beat, from its next turn on."""
        if not self._inside[node]:
            self._inside[node] = 1
            self._changed = True
            insort(self._members, (self._phase[node], node))

    def add_all(self, nodes: Iterable[int]) -> None:
        """Let many nodes beat."""
        fresh = [node for node in nodes if not self._inside[node]]
        # Few nodes are inserted in place; for many, a single sort is cheaper than as many insertions.
        if len(fresh) < 8:
            for node in fresh:
                self.add(node)
            return
        for node in fresh:
            self._inside[node] = 1
        self._changed = True
        self._members.extend((self._phase[node], node) for node in fresh)
        self._members.sort()

    def discard(self, node: int) -> None:
        """Let a node sleep."""
        if self._inside[node] == 1:
            self._inside[node] = 0
            self._changed = True
            del self._members[bisect_left(self._members, (self._phase[node], node))]

    def mute(self, node: int) -> None:
        """Let a node sleep, and stay so until `unmute`."""
        self.discard(node)
        self._inside[node] = _MUTE

    def unmute(self, node: int) -> None:
        """Let a node beat, muted or not, from its next turn on."""
        if self._inside[node] == _MUTE:
            self._inside[node] = 0
        self.add(node)

    def clear(self) -> None:
        """Let all nodes sleep."""
        for _, node in self._members:
            self._inside[node] = 0
        self._members.clear()
        self._changed = True

    def beat_now(self, node: int) -> None:
        """Let the node beat now, out of band, and count its interval from now on (YARN's NodeManager)."""
        inside = self._inside[node]
        self.discard(node)
        now = self._calendar.now
        self._phase[node] = now % self._interval
        # Entries of this instant with a lower rank come first, as in a run with all nodes on the ring.
        if not self._calendar.is_turn(BEAT, node):
            self.add(node)
            return
        if inside:
            self.add(node)
        self._last = (now, node)
        self._changed = True
        self._beat(node)

    def begin_anew(self, beat: Callable[[int], None], idle: Callable[[], bool] | None) -> None:
        """Let nodes beat from now on, and not for times gone by, with `beat` and `idle` in place of the former."""
        self._beat, self._idle = beat, idle
        # The entry on the calendar is void.
        self._next, self._changed = None, True
        self._generation += 1

    def arm(self) -> None:
        """Make sure that the next beat is on the calendar; call after every change."""
        if not self._changed:
            return
        self._changed = False
        self._enter(self._upcoming())

    def _enter(self, upcoming: tuple[int, int] | None) -> None:
        # The beat on the calendar is still the next: no second entry.
        if upcoming == self._next:
            return
        self._next = upcoming
        self._generation += 1
        if upcoming is not None:
            self._calendar.at(upcoming[0], BEAT, upcoming[1], self._turn, self._generation)

    def _upcoming(self) -> tuple[int, int] | None:
        members = self._members
        if not members:
            return None
        now, interval = self._calendar.now, self._interval
        if now < self._begin:
            phase, node = members[0]
            return self._begin + phase, node
        last_time, last_node = self._last
        # From the latest beat on: at the same instant, nodes with higher numbers still have their turn.
        position = bisect_right(members, (now % interval, last_node if last_time == now else -1))
        if position < len(members):
            phase, node = members[position]
            return now + (phase - now) % interval, node
        phase, node = members[0]
        return now + ((phase - now) % interval or interval), node

    def _turn(self, generation: int) -> None:
        """Let a node beat, then every node with a beat before the next calendar entry: beats without the calendar."""
        turn = self._next
        # The calendar has no removal: an entry of an older generation is void.
        if generation != self._generation:
            return
        while turn is not None:
            # Cleared before the beat, so that a call of `arm` during the beat enters the next beat.
            self._last, self._next, self._changed = turn, None, True
            self._generation += 1  # makes the calendar's earlier entries void
            self._beat(turn[1])
            if not self._changed:
                return  # armed during the beat
            self._changed = False
            turn = self._upcoming()
            if turn is not None and self._idle is not None and self._idle():
                turn = self._passed(turn)
            if turn is None or not self._calendar.go_to(turn[0], BEAT, turn[1]):
                self._enter(turn)
                return

    def _passed(self, turn: tuple[int, int]) -> tuple[int, int]:
        """Let beats from a turn on pass, up to the calendar's next entry; returns the turn after them."""
        entry, members = self._calendar.next_entry, self._members
        # Without an entry nothing would ever end the beats; one by one a policy's patience does.
        if entry is None:
            return turn
        until, beats = entry[0], list[tuple[int, int]]()
        position = bisect_left(members, (self._phase[turn[1]], turn[1]))
        round_began = turn[0] - self._phase[turn[1]]
        while True:
            phase, node = members[position]
            at = round_began + phase
            # The time first: at nearly all beats the entry is far away.
            if (at >= until and (at, priority(BEAT, node)) >= entry) or len(beats) == _TOGETHER:
                break
            beats.append((at, node))
            position += 1
            if position == len(members):
                position, round_began = 0, round_began + self._interval
        if beats:
            self._last = beats[-1]
            self._calendar.go_to(beats[-1][0], BEAT, beats[-1][1])
            self._let_pass(beats)
        return at, node
