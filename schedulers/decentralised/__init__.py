"""Schedulers without a view of the cluster, and workers with queues (Sparrow, SOSP 2013)."""
