"""Exit codes of containers that end before their task, by YARN's ContainerExitStatus; a lost one has core's ABORTED."""

from __future__ import annotations

from typing import Final

#: An attempt, or a master, that failed by itself.
FAILED: Final = 1
#: A process that was told to end (128 + SIGTERM).
TERMINATED: Final = 143
PREEMPTED: Final = -102
#: A container without progress, ended by its master (KILLED_BY_APPMASTER).
KILLED_BY_MASTER: Final = -105
#: A container that the resource manager ends, such as those of a lost master (KILLED_BY_RESOURCEMANAGER,
#: ContainerManagerImpl; the resource manager's own books say ABORTED).
KILLED_BY_MANAGER: Final = -106
#: A container that ended with its job (KILLED_AFTER_APP_COMPLETION).
KILLED: Final = -107
