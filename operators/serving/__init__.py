"""What every process of ours has: its ports, TLS, probes and metrics, and an orderly end."""
