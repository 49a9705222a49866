"""The benchmarks, one file per group or part of one, found by being here."""
