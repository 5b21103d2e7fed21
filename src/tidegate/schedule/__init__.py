"""Schedules: which fits happen when, as pure functions of public numbers."""

from tidegate.schedule.basic import Basic
from tidegate.schedule.continual import Continual
from tidegate.schedule.cumulative import Cumulative
from tidegate.schedule.fading import Fading
from tidegate.schedule.fit import Fit, RecordFit, SlotWeight, Span, Steps, Stream
from tidegate.schedule.growing import Growing
from tidegate.schedule.independent import Independent
from tidegate.schedule.multiresolution import MultiResolution
from tidegate.schedule.protocol import Schedule, fits
from tidegate.schedule.sliding import SlidingWindow
from tidegate.schedule.twostream import TwoStream

__all__ = [
    "Basic",
    "Continual",
    "Cumulative",
    "Fading",
    "Fit",
    "Growing",
    "Independent",
    "MultiResolution",
    "RecordFit",
    "Schedule",
    "SlidingWindow",
    "SlotWeight",
    "Span",
    "Steps",
    "Stream",
    "TwoStream",
    "fits",
]
