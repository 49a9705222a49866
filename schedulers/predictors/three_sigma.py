"""3Sigma as in SLearn's evaluation: the expected utility of history's distribution.

The variants differ in two choices: by stage, and the median instead of the distribution.
"""

from __future__ import annotations

from schedulers.core.predictor import predictors
from schedulers.kit.histogram import Histogram
from schedulers.kit.history import HistoryPredictor


@predictors.register("three_sigma", source="Park et al., 3Sigma, EuroSys 2018; SLearn, NSDI 2022, section 4.3")
class ThreeSigma(HistoryPredictor):
    """History: the run time whose utility 1/t^2 equals the expected utility over similar jobs' distribution.

    The estimate is (E[t^-2])^(-1/2): for run times 10, 10, 20, 100 it is 13.3, where the median (`point_estimate`) is
    15 and the mean 35. The estimate leans to the short side. The whole job gets a single mean task run time, over all
    its tasks. With `thin_bypass` the predictor is 3SigmaTL (SLearn, section 5.1.3).

    **Similar jobs** share a feature value (SLearn, section 4.2): application, `job_name`, `user`, `submit_day` (of the
    week), `submit_hour` (of the day), or `request` (the resources of a task; in a DAG the largest over its stages).
    Each feature value of the job at hand has four experts: the average, the median, an exponentially decayed average
    and the average of the most recent run times. The score of an expert is its normalised mean absolute error: sum of
    |estimated - measured| over sum of measured, taken before the new run time is inserted. The expert with the lowest
    score names the feature; equal scores go to the first feature of the list, then to the first estimator.

    **Choices where the sources are silent:**

    - A run time belongs to the day of its job's end. Today and the `window_days` whole days before count; a day leaves
      with its histogram, its scores and its recent run times together.
    - Scores are kept per feature value, not per feature, over the same window.
    - An expert is judged at the end of a job, by its estimate at the end, not at the submission.
    - Without an expert with enough observations, all jobs of the window count; without any job, `default_task_ms`.
    - Run times below 1 ms count as 1 ms, because a single zero would decide the expectation of t^-2.
    - Histograms shrink at the lowest of equal gaps (the original draws a gap), so the same facts give the same bins.
    """

    def point(self, histogram: Histogram) -> float:
        """(E[t^-2])^(-1/2)."""
        return histogram.power_mean(-2)


@predictors.register("three_sigma_dag", source="Jajoo et al., SLearn, NSDI 2022, section 6")
class ThreeSigmaDag(ThreeSigma):
    """History by stage: each stage is estimated as 3Sigma would, from the same stage of similar jobs.

    The size of a job is the sum over its stages (SLearn, section 6). Stages are told apart by their index; an index
    never seen before falls back to the first stage. Features, experts and choices are those of `three_sigma`.
    """

    per_stage = True


@predictors.register("point_estimate", source="Jajoo et al., SLearn, NSDI 2022, section 5.1.3")
class PointEstimate(HistoryPredictor):
    """History: the median run time of similar jobs.

    A single mean task run time for the whole job, over all its tasks. Features, experts and choices are those of
    `three_sigma`; `point_estimate_dag` has an estimate per stage.
    """

    def point(self, histogram: Histogram) -> float:
        """The median."""
        return histogram.median()


@predictors.register("point_estimate_dag", source="Jajoo et al., SLearn, NSDI 2022, section 6")
class PointEstimateDag(PointEstimate):
    """History by stage: the median run time of the same stage of similar jobs.

    The size of a job is the sum over its stages, as for `three_sigma_dag`; SLearn's paper calls the baseline
    Point-Est-DAG. Features, experts and choices are those of `three_sigma`.
    """

    per_stage = True
