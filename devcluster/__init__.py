"""A real control plane on loopback with fake kubelets, for tests and for trying out."""
