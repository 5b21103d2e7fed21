"""Columns with kinds: what a table's values mean, and the bounded features they become."""

# Imported in the order in which users see them.
# isort: off
from tidegate.data.columns.number import Number
from tidegate.data.columns.category import Category
from tidegate.data.columns.flag import Flag
from tidegate.data.columns.time import Time
from tidegate.data.columns.text import Text
from tidegate.data.columns.vector import Vector
from tidegate.data.columns.column import KINDS, Column, column_of
from tidegate.data.columns.table import Table, TableColumns
# isort: on

__all__ = [
    "KINDS",
    "Category",
    "Column",
    "Flag",
    "Number",
    "Table",
    "TableColumns",
    "Text",
    "Time",
    "Vector",
    "column_of",
]
