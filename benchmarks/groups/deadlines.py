"""A row of group `architectures`: how long a job's rehearsal takes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.rows import Row, benchmark
from schedulers.core import keyed
from schedulers.core.rehearsal import Act, Script
from schedulers.planning.jockey.rehearsal import rehearse


@benchmark("jockey_table", "architectures")
def jockey_table(tiny: bool) -> Iterator[Row]:
    """Jockey's table for one job of 20 stages and 2,000 tasks: ten plays on each of ten allocations."""
    script = _script(4, 40) if tiny else _script(20, 2_000)
    took = []
    for _ in range(1 if tiny else 3):
        begun = time.process_time()
        _, table = rehearse(script)
        took.append(time.process_time() - begun)
    yield Row(
        name="jockey_table",
        value=min(took),
        unit="s",
        target="<= 1",
        note=f"CPU time, the least of {len(took)}; {sum(act.tasks for act in script.acts)} tasks in {len(script.acts)} "
        f"stages, {script.draws} plays on each of {len(table.allocations)} allocations",
    )


def _script(stages: int, tasks: int) -> Script:
    """Stages of unlike width, each under up to two of those before it."""
    random = keyed.generator(1, "jockey_table")
    widths = random.multinomial(tasks - stages, random.dirichlet([2.0] * stages)) + 1
    acts = [
        Act(
            tasks=int(width),
            parents=tuple(sorted({int(random.integers(max(0, index - 4), index)) for _ in range(2)})) if index else (),
            task_ms=float(random.uniform(5_000, 120_000)),
            spread=0.3,
        )
        for index, width in enumerate(widths)
    ]
    return Script(acts=tuple(acts), allocations=tuple(range(10, 101, 10)), draws=10, variation=0.3, seed=1)
