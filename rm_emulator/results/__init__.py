"""What a run leaves behind: log, tables, metrics, report, trace, explanations."""
