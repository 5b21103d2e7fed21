"""Which of a run of labelled records are learnt, and which are tested on.

Both ways test a model on records of the time of its release, so that drift shows.
"""

from collections.abc import Callable

import numpy as np

from tidegate.checks import refuse, whole
from tidegate.study.study_stream import Labelled

Split = tuple[Labelled, Callable[[int], Labelled]]
"""The records that are learnt, and those to test on when so many of them have arrived."""


def interleaved(records: Labelled, *, every: int, near: int) -> Split:
    """Leave out every so manieth record, to test on those of about the same time.

    Args:
        records: In the order of their arrival.
        every: Which are left out: those numbered 0, every, 2 every, ...
        near: How many of these a model is tested on: the nearest to its time.

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
        # After `at` records of the stream as many are left out as there are runs of every - 1.
        middle = -(-at // (every - 1))
        start = min(max(0, middle - near // 2), count - near)
        return left_out[start : start + near]

    return records[~out], test


def prequential(records: Labelled, *, ahead: int) -> Split:
    """Learn all records: each model is tested on those that arrive next.

    Args:
        records: In the order of their arrival; the last `ahead` are tested on only.
        ahead: How many a model is tested on.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> learnt, test = prequential(numbers, ahead=4)
    >>> len(learnt.y), test(8).y
    (16, array([ 8,  9, 10, 11]))
    """
    kept = len(records.y) - whole("ahead", ahead)
    if kept <= 0:
        raise refuse("the number of records", f"above {ahead}", len(records.y))
    return records[:kept], lambda at: records[at : at + ahead]
