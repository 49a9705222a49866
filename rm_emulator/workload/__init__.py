"""Workloads: generators, and one reader per trace format."""
