"""Readers of trace formats, one file each; every one registers itself with `workload.formats`."""
