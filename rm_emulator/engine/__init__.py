"""The SimPy resource manager: heartbeats, applications, execution model."""
