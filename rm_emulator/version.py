"""The version of the program, which runs and summaries name."""

from importlib.util import find_spec

__version__ = "0.1.0"


def has_compiled_core() -> bool:
    """Whether the core was compiled by mypyc (setup.py)."""
    found = find_spec("schedulers.core.scheduler")
    return found is not None and found.origin is not None and not found.origin.endswith(".py")
