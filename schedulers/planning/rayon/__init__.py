"""Rayon's reservations: which part of a cluster is promised to which job, and when."""
