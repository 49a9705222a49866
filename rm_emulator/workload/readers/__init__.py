"""Readers of trace formats, a file each; every reader registers itself with `workload.formats`."""
