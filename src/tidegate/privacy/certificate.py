"""The certificate: what any record can ever pay, in closed form.

Each form stands with its schedule, is derived in docs/proofs/certificate.md and held against brute
force in tests/laws.
"""

from tidegate.checks import refuse
from tidegate.schedule.levels import Certificate, Levels
from tidegate.schedule.protocol import Charged
from tidegate.schedule.registry import SCHEDULES
from tidegate.schedule.twostream import Target


def certify(schedule: Charged, levels: Levels) -> Certificate:
    """The exact supremum of the ledger, over all records and all time, before scaling.

    >>> from fractions import Fraction
    >>> from tidegate.schedule import Continual, SlidingWindow
    >>> halves = Levels(rate=Fraction(1, 2))
    >>> str(certify(SlidingWindow(window=7, step=1), halves).supremum)
    '7/12'
    >>> str(certify(Continual(block=8, step=1), halves).supremum)
    '11/8'
    """
    if type(schedule) not in (*SCHEDULES.values(), Target):
        # a subclass may make other fits than it is certified for
        raise refuse(
            "schedule", "one that a certificate is proved for", told=type(schedule).__name__
        )
    return schedule.certificate(levels)
