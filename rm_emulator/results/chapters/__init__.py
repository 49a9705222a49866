"""The chapters of a job's story: each listens to one side of a replay, `results.story` puts them together."""
