"""Placers, a file each: the node of a task."""
