"""Why records cannot be used, for the quarantine, which only operators read."""

from collections.abc import Mapping, Sequence

from tidegate.features.columns.table import as_table, few
from tidegate.gate.config import Config
from tidegate.gate.sources import RawBatch

NO_CLASS, NO_TARGET = "the label is not a class", "the target is missing or not a finite number"
NO_NUMBER = "the label is missing or not a number"
UNUSABLE = f"a value is missing or not a finite number, or {NO_CLASS}"
UNUSABLE_TARGET = "a value or the target is missing or not a finite number"


def reasons_for(config: Config, raw: RawBatch, unusable: Sequence[int]) -> Mapping[int, str]:
    """The reason for each unusable slot of a batch: with columns, those that it contradicts."""
    columns, records = config.column_map(), config.records
    if columns is None or not unusable:
        usual = UNUSABLE if records.target is None else UNUSABLE_TARGET
        return dict.fromkeys(unusable, usual)
    wrong = columns.bad(as_table(raw.X, columns.names)[list(unusable)])
    found = {
        slot: [each.shown for each in columns.checked if wrong[each.name][place]]
        for place, slot in enumerate(unusable)
    }
    no_label = NO_CLASS if records.target is None else NO_TARGET
    if records.cuts is not None:
        no_label = NO_NUMBER
    return {
        slot: f"not of its column's kind: {few(names)}" if names else no_label
        for slot, names in found.items()
    }
