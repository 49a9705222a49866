"""Reconcilers of DagJob and Queue: pods, replacement, status. They decide neither order nor place."""
