"""The benchmarks of the Kubernetes side; `rm-emulator bench kubernetes` runs them in a process of their own."""
