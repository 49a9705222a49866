"""Plans of one DAG on equal machines: schedules, bounds, list scheduling and shelves."""
