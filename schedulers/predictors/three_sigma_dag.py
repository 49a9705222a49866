"""3Sigma-DAG: 3Sigma for each stage by itself."""

from __future__ import annotations

from schedulers.core.histogram import Histogram
from schedulers.core.history import HistoryPredictor
from schedulers.core.predictor import predictors


@predictors.register("three_sigma_dag", source="Jajoo et al., SLearn, NSDI 2022, section 6")
class ThreeSigmaDag(HistoryPredictor):
    """History by stage: each stage is estimated as 3Sigma would, from the same stage of similar jobs."""

    per_stage = True

    def point(self, histogram: Histogram) -> float:
        """(E[t^-2])^(-1/2)."""
        return histogram.power_mean(-2)
