"""Streams made of one run of labelled records: which of them are learnt, and which are tested on.

Both ways test a model on records of the time of its release, so that drift shows.
"""

from functools import partial
from typing import Any

import numpy as np

from tidegate.checks import refuse, whole
from tidegate.study.study_stream import Labelled, StudyStream


def _some(records: Labelled, which: Any) -> Labelled:
    return Labelled(X=records.X[which], y=records.y[which])


def interleaved(  # noqa: PLR0913 (what a stream is, and how it is tested)
    records: Labelled, *, every: int, near: int, classes: int, norm: float, name: str
) -> StudyStream:
    """A stream that leaves out every so manieth record, to test on those of about the same time.

    Args:
        records: In the order of their arrival.
        every: Which are left out: those numbered 0, every, 2 every, ...
        near: How many of these a model is tested on: the nearest to its time.
        classes: How many there are.
        norm: The bound on the length of a record.
        name: What the stream is called.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> stream = interleaved(numbers, every=5, near=2, classes=20, norm=20.0, name="numbers")
    >>> stream.records.y, stream.test(8).y
    (array([ 1,  2,  3,  4,  6,  7,  8,  9, 11, 12, 13, 14, 16, 17, 18, 19]), array([ 5, 10]))
    """
    whole("every", every, least=2)
    numbers = np.arange(len(records.y))
    out = numbers % every == 0
    left_out = _some(records, out)
    count = len(left_out.y)
    near = min(whole("near", near), count)

    def test(at: int) -> Labelled:
        # After `at` records of the stream as many are left out as there are runs of every - 1.
        middle = -(-at // (every - 1))
        start = min(max(0, middle - near // 2), count - near)
        return _some(left_out, slice(start, start + near))

    return StudyStream(
        name=name, records=_some(records, ~out), classes=classes, norm=norm, test=test
    )


def prequential(
    records: Labelled, *, ahead: int, classes: int, norm: float, name: str
) -> StudyStream:
    """A stream that is all learnt: each model is tested on the records that arrive next.

    Args:
        records: In the order of their arrival; the last `ahead` are tested on only.
        ahead: How many a model is tested on.
        classes: How many there are.
        norm: The bound on the length of a record.
        name: What the stream is called.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> stream = prequential(numbers, ahead=4, classes=20, norm=20.0, name="numbers")
    >>> stream.n, stream.test(8).y
    (16, array([ 8,  9, 10, 11]))
    """
    kept = len(records.y) - whole("ahead", ahead)
    if kept <= 0:
        raise refuse("the number of records", f"above {ahead}", len(records.y))
    return StudyStream(
        name=name,
        records=_some(records, slice(kept)),
        classes=classes,
        norm=norm,
        test=partial(_next, records, ahead),
    )


def _next(records: Labelled, ahead: int, at: int) -> Labelled:
    return _some(records, slice(at, at + ahead))
