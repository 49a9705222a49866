"""Mean, quantiles and maximum of a quantity."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl


class Quantiles(msgspec.Struct, frozen=True):
    """Mean, quantiles and maximum of a quantity."""

    mean: float
    p50: float
    p90: float
    max: float


def summary(values: Sequence[float] | pl.Series) -> Quantiles | None:
    """The figures of some values; None for no value. Nulls of a series are left out."""
    found = values.drop_nulls() if isinstance(values, pl.Series) else values
    array = np.asarray(found, dtype=np.float64)
    if not len(array):
        return None
    p50, p90 = np.quantile(array, (0.5, 0.9))
    return Quantiles(float(array.mean()), float(p50), float(p90), float(array.max()))
