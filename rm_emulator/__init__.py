"""Shell 1: the resource manager emulated on simulated time.

    import rm_emulator
    results = rm_emulator.run("scenario.yaml", seeds="1..5")
    results.comparisons
    print(rm_emulator.explain(results, "job-7"))

`rm_emulator.api` has further functions for whole studies. Importing the package is cheap; modules behind `run` are
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rm_emulator.version import __version__

__all__ = ["__version__", "compare", "explain", "load", "run", "simulate"]

if TYPE_CHECKING:
    from rm_emulator.experiments.api import compare, explain, load, run
    from rm_emulator.forecasts.api import simulate
else:

    def __getattr__(name):
        """A function of `experiments.api`, imported on first use because its imports take a second (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        if name == "simulate":
            from rm_emulator.forecasts import api
        else:
            from rm_emulator.experiments import api

        return globals().setdefault(name, getattr(api, name))

    def __dir__():
        return sorted({*globals(), *__all__})
