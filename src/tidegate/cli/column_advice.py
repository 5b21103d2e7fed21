"""Says from public records which columns have no gaps or others, and which only say so."""

from collections.abc import Iterator, Mapping

from tidegate.data.columns import Category, Column, TableColumns
from tidegate.data.columns.table import few
from tidegate.sources.public_records import Findings

MIN_RECORDS_TO_JUDGE = 100
"""With fewer records than this, nobody can tell that a column has no gaps."""

FOUND = {"gaps": "missing", "others": "not listed"}
"""What a value is that contradicts a key."""


ALL = {"gaps": "No value is missing in", "others": "All values are listed in"}
"""What columns have in common that could have a key."""


def column_advice(columns: TableColumns, found: Findings, *, pure: bool) -> Iterator[str]:
    """A line for each column that its records contradict, and what others could be declared.

    Args:
        columns: The columns.
        found: What public records show.
        pure: Whether the budget has no delta. Then the noise of each feature grows with their
            number; otherwise it does not, and nothing is suggested.
    """
    counts: dict[str, Mapping[str, int]] = {"gaps": found.gaps, "others": found.others}
    for each in columns.checked:
        for key in each.without:
            if count := counts[key].get(each.name):
                values = "value is" if count == 1 else "values are"
                yield (
                    f"{each.name}: {count:,} {values} {FOUND[key]}, but {key} = false: their "
                    f"records are unusable. Remove {key} = false, or mend the records"
                )
    if not pure or found.usable < MIN_RECORDS_TO_JUDGE:
        return
    for key, of_key in counts.items():
        able = [each for each in columns.checked if _could(each, key)]
        names = [each.name for each in able if not of_key.get(each.name)]
        if names:
            yield (
                f"{ALL[key]} {few(names)}: if it stays so, add {key} = false there. That saves a "
                "feature each, and without a delta fewer features mean less noise in all of them"
            )


def _could(column: Column, key: str) -> bool:
    """Whether a column could be declared without gaps or others, and is not."""
    listed = isinstance(column, Category) and bool(column.values)
    return key not in column.without and not column.gaps and (key == "gaps" or listed)
