"""One arithmetic for all x86-64 processors: libraries choose instructions, and so sums, by processor unless told."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

#: What every such processor can do: matrices of numpy, its exp and log, matrices of torch, and all else of torch.
#: Networks are so small that wider instructions save no time.
PLAIN: Final[Mapping[str, str]] = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
}


def pin() -> None:
    """Let this process and its children compute alike on all machines. Without effect once numpy is imported."""
    if "numpy" not in sys.modules:
        os.environ.update(PLAIN)
