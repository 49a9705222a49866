"""Offline plans of one DAG on unlike machines, with data on its edges and, by some planners, copies of tasks."""
