"""The chapters of a job's story: each listens to a side of a replay, `results.story` puts them together."""
