"""Kubernetes shell: the scheduler core behind a real kube-scheduler."""
