"""Quantiles of the standard normal distribution, to the bit those of `scipy.special.ndtri`, without SciPy.

A workload needs no other function of SciPy, whose import takes a sixth of a command that only reads. Source: Cephes,
ndtri.c (Moshier, 1989): rational functions around the middle, and of 1 / sqrt(-2 log quantile) in the tails.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: exp(-2): the tails begin here.
_TAIL: Final = 0.13533528323661269189
_ROOT_2_PI: Final = 2.50662827463100050242
#: Coefficients of numerators and denominators, highest power first; a denominator begins with 1.
_MIDDLE: Final = (
    (-59.9633501014107895267, 98.0010754185999661536, -56.6762857469070293439, 13.9312609387279679503,
     -1.23916583867381258016),
    (1.0, 1.95448858338141759834, 4.67627912898881538453, 86.3602421390890590575, -225.462687854119370527,
     200.260212380060660359, -82.0372256168333339912, 15.9056225126211695515, -1.18331621121330003142),
)  # fmt: skip
_NEAR: Final = (
    (4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162, 44.0805073893200834700,
     14.6849561928858024014, 2.18663306850790267539, -0.140256079171354495875, -0.0350424626827848203418,
     -8.57456785154685413611e-4),
    (1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440, 15.0425385692907503408,
     2.50464946208309415979, -0.142182922854787788574, -0.0380806407691578277194, -9.33259480895457427372e-4),
)  # fmt: skip
#: From exp(-32) down.
_FAR: Final = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
     0.201485389549179081538, 0.0123716634817820021358, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
     6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 0.216236993594496635890,
     0.0134204006088543189037, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip


def quantiles(of: Floats) -> Floats:
    """Values below which a standard normal variable stays with the probabilities `of`, in (0, 1), of any shape."""
    off = of - 0.5
    square = off * off
    values: Floats = (off + off * _ratio(_MIDDLE, square, square)) * _ROOT_2_PI
    tail = np.where(of > 1 - _TAIL, 1 - of, of)
    outside = tail <= _TAIL
    root = np.sqrt(-2 * _log(tail[outside]))
    inverse = 1 / root
    rest = np.where(root < 8, _ratio(_NEAR, inverse, inverse), _ratio(_FAR, inverse, inverse))
    values[outside] = np.copysign(root - _log(root) / root - rest, off[outside])
    return values


def _ratio(parts: tuple[Sequence[float], Sequence[float]], at: Floats, factor: Floats) -> Floats:
    """`factor` times a polynomial over another."""
    over, under = (functools.reduce(lambda sum_, each: sum_ * at + each, part, np.zeros_like(at)) for part in parts)
    return factor * over / under


def _log(values: Floats) -> Floats:
    """Logarithms of the C library: NumPy's own differ in the last bit between processors."""
    return np.array([math.log(value) for value in values.tolist()])
