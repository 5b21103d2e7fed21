"""Columns with kinds: what a table's values mean, and the bounded features they become."""

# Imported in the order in which users see them.
# isort: off
from tidegate.features.columns.number import Number
from tidegate.features.columns.category import Category
from tidegate.features.columns.flag import Flag
from tidegate.features.columns.time import Time
from tidegate.features.columns.text import Text
from tidegate.features.columns.vector import Vector
from tidegate.features.columns.column import KINDS, Column, column_of
from tidegate.features.columns.columns import Columns
from tidegate.features.columns.table import Table
# isort: on

__all__ = [
    "KINDS",
    "Category",
    "Column",
    "Columns",
    "Flag",
    "Number",
    "Table",
    "Text",
    "Time",
    "Vector",
    "column_of",
]
