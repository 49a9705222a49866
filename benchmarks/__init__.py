"""How fast the product is, each figure beside a reference measured in the same run.

Each row is `{"name", "value", "unit", "reference", "ratio", "target", "met", "note"}`. A target is a bound of the
ratio where there is a ratio, else of the value. Only the run is timed, not the making of the workload. All rates
are per CPU second, except for `cli_help_ms`, which is wall time. The reference runs before and after each
repetition, because shared cores drift by tens of percent within seconds; `value` and `reference` are medians over
the repetitions. Missed targets do not change the exit code: a busy machine is no error. While a run runs, Python
searches for garbage cycles after 100,000 objects instead of 700 (`Simulation.run`); the reference keeps 700.

Targets of group `engine`: decima-sim on an idle machine (137,000 tasks/s) for `tpch_executor_replay`, three times
DSS for `yarn_heartbeats_22k`. `docs/speed.md` has the recorded figures.
"""
