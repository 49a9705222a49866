"""Policies, a file each: the choice of the next task."""
