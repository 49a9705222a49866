"""Jockey (Ferguson et al., EuroSys 2012): progress of a job, its rehearsals, and the number of its containers."""
