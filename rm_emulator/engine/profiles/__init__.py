"""The profiles: one module each, found by its name. `profiles/mesos.py` with a class `Mesos` is profile 'mesos'."""
