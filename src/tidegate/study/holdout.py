"""Splits labelled records into those to learn from and those to test on.

Both ways test a model on records from the time of its release, so that drift shows.
"""

from collections.abc import Callable

import numpy as np

from tidegate.checks import refuse, whole
from tidegate.study.study_stream import Labelled

Split = tuple[Labelled, Callable[[int], Labelled]]
"""The records to learn from, and a function from how many have arrived to the test records."""


def interleaved(records: Labelled, *, every: int, near: int) -> Split:
    """Hold out one in `every` records; test each model on those nearest to its time.

    Args:
        records: In the order of their arrival.
        every: The records numbered 0, every, 2 every, ... are held out.
        near: Number of held-out records that a model is tested on.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> learnt, test = interleaved(numbers, every=5, near=2)
    >>> learnt.y, test(8).y
    (array([ 1,  2,  3,  4,  6,  7,  8,  9, 11, 12, 13, 14, 16, 17, 18, 19]), array([ 5, 10]))
    """
    whole("every", every, least=2)
    out = np.arange(len(records.y)) % every == 0
    left_out = records[out]
    count = len(left_out.y)
    near = min(whole("near", near), count)

    def test(at: int) -> Labelled:
        # Each run of every - 1 records of the stream follows one that was held out.
        middle = -(-at // (every - 1))
        start = min(max(0, middle - near // 2), count - near)
        return left_out[start : start + near]

    return records[~out], test


def prequential(records: Labelled, *, ahead: int) -> Split:
    """Learn from all records; test each model on the records that arrive next.

    Args:
        records: In the order of their arrival; the last `ahead` are used for tests only.
        ahead: Number of records that a model is tested on.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> learnt, test = prequential(numbers, ahead=4)
    >>> len(learnt.y), test(8).y
    (16, array([ 8,  9, 10, 11]))
    """
    kept = len(records.y) - whole("ahead", ahead)
    if kept <= 0:
        raise refuse("the number of records", f"above {ahead}", len(records.y))
    return records[:kept], lambda at: records[at : at + ahead]
