"""The brain: changes of API objects become facts for the core, the core's decisions become gate releases.

The brain is synchronous and runs on the event loop's thread: `hear` takes in a change, `cycle` lets the core decide,
`filter` answers kube-scheduler. Writes go to `ReleaseWriter`; nothing here waits for the network.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from operators.cache.cache import Cache
from operators.extender.driver import CoreDriver
from operators.extender.filter import Filter
from operators.extender.intake import Breaks
from operators.extender.releases import ReleaseWriter
from operators.extender.translator import ChangeTranslator
from schedulers.core.model import PastJob
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import BrainSnapshot


class Brain:
    """The core with its ties to a cluster, for one term of leadership.

    `breaks` come from earlier terms (see `Intake`), `clock` is the wall clock in ms, `remember` hears of each finished
    job and the job's queue, `reserved` is explained in `ChangeTranslator`. After `take_over`, every change has to
    be given to `hear`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        cache: Cache,
        releases: ReleaseWriter,
        *,
        clock: Callable[[], int],
        remember: Callable[[PastJob], None] = lambda job: None,
        expire_ms: int = 30_000,
        reserved: bool = False,
        breaks: Breaks | None = None,
    ) -> None:
        self.scheduler, self.cache = scheduler, cache
        self.driver = CoreDriver(scheduler, cache, releases, clock=clock, expire_ms=expire_ms)
        self.translator = ChangeTranslator(
            self.driver, remember, breaks if breaks is not None else Breaks(), reserved=reserved
        )
        asked = Filter(self.driver, self.translator)
        # Bound once: these are called for every change, and a forwarding method would cost one more call each.
        self.hear, self.cycle, self.expire = self.translator.hear, self.driver.cycle, self.driver.expire
        self.filter, self.prioritize, self.preempt = asked.filter, asked.prioritize, asked.preempt
        self.resources, self.ledger, self.jobs = self.driver.resources, self.driver.ledger, self.driver.jobs

    def snapshot(self) -> bytes:
        """The core's snapshot, and the pod of each container (msgpack of `BrainSnapshot`)."""
        # Both parts in one blob: a ledger of another moment than the core's would name containers that are not there.
        return msgspec.msgpack.encode(BrainSnapshot(self.scheduler.snapshot(), self.ledger.dump()))
