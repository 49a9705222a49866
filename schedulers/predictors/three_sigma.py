"""3Sigma as in SLearn's evaluation: the expected utility of history's distribution.

Two variants differ in a single choice: by stage, and the median instead of the distribution.
"""

from __future__ import annotations

from schedulers.core.predictor import predictors
from schedulers.kit.histogram import Histogram
from schedulers.kit.history import HistoryPredictor


@predictors.register("three_sigma", source="Park et al., 3Sigma, EuroSys 2018; SLearn, NSDI 2022, section 4.3")
class ThreeSigma(HistoryPredictor):
    """History: the run time whose utility 1/t^2 equals the expected one over similar jobs' distribution.

    One mean task run time for the whole job. With `thin_bypass` it is 3SigmaTL (SLearn, section 5.1.3).
    """

    def point(self, histogram: Histogram) -> float:
        """(E[t^-2])^(-1/2)."""
        return histogram.power_mean(-2)


@predictors.register("three_sigma_dag", source="Jajoo et al., SLearn, NSDI 2022, section 6")
class ThreeSigmaDag(ThreeSigma):
    """History by stage: each stage is estimated as 3Sigma would, from the same stage of similar jobs."""

    per_stage = True


@predictors.register("point_estimate", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.3")
class PointEstimate(HistoryPredictor):
    """History: the median run time of similar jobs."""

    def point(self, histogram: Histogram) -> float:
        """The median."""
        return histogram.median()
