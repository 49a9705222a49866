"""Predictors, a file each: the run time of a task."""
