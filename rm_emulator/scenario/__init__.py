"""Scenario files: schema, loading with line numbers, packaged examples."""
