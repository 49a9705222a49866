"""Jockey (Ferguson et al., EuroSys 2012): progress of a job, rehearsals of it, and the containers that it is given."""
