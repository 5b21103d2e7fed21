"""Measures of how good a model is, each in one place, registered in reading order."""

# Imported in the order in which users see them.
# isort: off
from tidegate.learn.measures import accuracy, log_loss, brier, auc, bias, errors  # noqa: F401
from tidegate.learn.measures import unusable_share, calibration, thresholds, confusion  # noqa: F401
