"""The emulator against real runs of YARN's ResourceManager: per job, mean, worst job, distance of distributions."""
