"""Point-Est: 3Sigma's choice of similar jobs, but their median instead of their distribution."""

from __future__ import annotations

from schedulers.core.histogram import Histogram
from schedulers.core.history import HistoryPredictor
from schedulers.core.predictor import predictors


@predictors.register("point_estimate", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.3")
class PointEstimate(HistoryPredictor):
    """History: the median run time of similar jobs."""

    def point(self, histogram: Histogram) -> float:
        """The median."""
        return histogram.median()
