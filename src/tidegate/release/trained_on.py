"""Descriptions of what a release was trained on: the records of its whole chain."""

from tidegate.schedule.fit import RecordFit, Span, Stream

Reach = dict[Stream | None, tuple[Span, ...]]
"""The records of a model's chain: for each stream its spans, in order, with gaps between."""


def extended(reach: Reach, fit: RecordFit) -> Reach:
    """The records of a chain that ends in a fit, given those of its prior's chain."""
    spans: list[Span] = []
    for span in sorted([*reach.get(fit.stream, ()), fit.span]):
        if spans and span.start <= spans[-1].stop:
            spans[-1] = Span(spans[-1].start, max(span.stop, spans[-1].stop))
        else:
            spans.append(span)
    return {**reach, fit.stream: tuple(spans)}


def in_words(reach: Reach, fit: RecordFit) -> str:
    """What the model of a fit was trained on, as text.

    Args:
        reach: The records of the chain that ends in the fit.
        fit: The fit that made the model.

    >>> base = RecordFit(0, 7168, Span(3072, 7168), None, "base", 2)
    >>> update = RecordFit(1, 8192, Span(7168, 8192), 0, "update", 0)
    >>> of_base = extended({}, base)
    >>> in_words(of_base, base)
    'a model of records 3,072 to 7,167'
    >>> in_words(extended(of_base, update), update)
    'a model of records 3,072 to 8,191, last updated on records 7,168 to 8,191'
    >>> from fractions import Fraction
    >>> from tidegate.schedule.fit import SlotWeight
    >>> refit = RecordFit(2, 9216, Span(2048, 9216), None, "base", 0, start=1,
    ...                   slot_weights=(SlotWeight(Span(2048, 9216), Fraction(1)),))
    >>> in_words(extended({}, refit), refit)
    'a model of records 2,048 to 9,215, remembering older ones through the release before'
    """
    parts = [
        f"{f'{stream} ' if stream else ''}records {' and '.join(map(_range, spans))}"
        for stream, spans in reach.items()
    ]
    model = f"a model of {' and '.join(parts)}"
    if fit.slot_weights:
        weighted = ", the newest counting most" if fit.slot_weights[0].part < 1 else ""
        older = fit.start is not None and fit.span.start > 0
        memory = ", remembering older ones through the release before" if older else ""
        return f"{model}{weighted}{memory}"
    if fit.prior is None:
        return model
    whose = f"{fit.stream} " if len(reach) > 1 else ""
    return f"{model}, last updated on {whose}records {_range(fit.span)}"


def _range(span: Span) -> str:
    return f"{span.start:,} to {span.stop - 1:,}"
