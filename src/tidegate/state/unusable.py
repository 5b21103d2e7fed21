"""Why records cannot be used, for the quarantine, which only operators read."""

from collections.abc import Mapping, Sequence

from tidegate.data.columns.table import as_table, few
from tidegate.run.config import Config
from tidegate.sources import RawBatch

UNUSABLE = {
    "classes": "a value is missing or not a finite number, or the label is not a class",
    "target": "a value or the target is missing or not a finite number",
}
"""Why a record of plain numbers cannot be used, by what is predicted."""


def reasons_for(config: Config, raw: RawBatch, unusable: Sequence[int]) -> Mapping[int, str]:
    """The reason for each unusable slot of a batch: with columns, those that it contradicts."""
    columns, records = config.column_map(), config.records
    if columns is None or not unusable:
        return dict.fromkeys(unusable, UNUSABLE[records.predicted.kind])
    wrong = columns.bad(as_table(raw.X, columns.names)[list(unusable)])
    found = {
        slot: [each.shown for each in columns.checked if wrong[each.name][place]]
        for place, slot in enumerate(unusable)
    }
    no_label = records.predicted.missing
    return {
        slot: f"not of its column's kind: {few(names)}" if names else no_label
        for slot, names in found.items()
    }
