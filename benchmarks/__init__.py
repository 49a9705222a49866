"""How fast the product is, each figure beside a reference measured in the same run.

Each row is `{"name", "value", "unit", "reference", "ratio", "target", "met", "note"}`. A target is a bound of the ratio
where there is a ratio, else of the value. Only the run is timed, not the making of the workload. All rates are per CPU
second, except for `cli_help_ms`, which is wall time. `docs/speed.md` has the recorded figures.
"""
