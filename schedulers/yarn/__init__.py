"""Hadoop 3.3's CapacityScheduler and FairScheduler as plain decision logic.

No clock, no threads, no I/O: facts come in as calls with their time, decisions go out as records. Vectors are
tuples of ints with memory first, as in Hadoop; every public name names its class or method in Hadoop.
"""
