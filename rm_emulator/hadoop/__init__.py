"""Hadoop's own files: SLS jobs and nodes, XML configuration, and real runs of its ResourceManager (3.3.5)."""
