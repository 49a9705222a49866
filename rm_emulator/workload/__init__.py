"""Workloads: generators, and a reader per trace format."""
