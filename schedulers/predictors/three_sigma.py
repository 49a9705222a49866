"""3Sigma as SLearn's evaluation uses it: the expected utility of the distribution that history gives."""

from __future__ import annotations

from schedulers.core.histogram import Histogram
from schedulers.core.history import HistoryPredictor
from schedulers.core.predictor import predictors


@predictors.register("three_sigma", source="Park et al., 3Sigma, EuroSys 2018; SLearn, NSDI 2022, section 4.3")
class ThreeSigma(HistoryPredictor):
    """History: the run time whose utility 1/t^2 equals the expected one over similar jobs' distribution.

    One mean task run time for the whole job. With `thin_bypass` it is 3SigmaTL (SLearn, section 5.1.3).
    """

    def point(self, histogram: Histogram) -> float:
        """(E[t^-2])^(-1/2)."""
        return histogram.power_mean(-2)
