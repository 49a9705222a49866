"""Reconcilers of DagJob and Queue: pods, replacement, status. Order and place are decided elsewhere."""
