"""Numeric targets: experts with squared loss, their pool, and prediction intervals.

`fit_targets` is what `NodeRegressor` calls; `fitting.py` is the file to read first. Graphs,
smoothed features, columns of boosted trees and conformal limits are those of the classifier. May
import `fitting` and what is below it, but neither the estimators nor reports.
"""

from nodeproof.regression.fitted import FittedTargets
from nodeproof.regression.fitting import fit_targets
from nodeproof.regression.settings import RegressionSettings

__all__ = ["FittedTargets", "RegressionSettings", "fit_targets"]
