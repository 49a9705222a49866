"""Resources, jobs, events, decisions, reasons, state, the scheduler and its registries."""
