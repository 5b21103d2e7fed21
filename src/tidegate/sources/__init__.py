"""Sources: they deliver records in order, each exactly once and in a slot of its own.

A slot is a row of a Parquet file, a line of a CSV or JSON lines file, or a message of a broker.
Where the next slot starts never depends on what a record holds, so a record that cannot be read
takes only its own slot.
"""

from tidegate.sources.batches import Batches, raw_batch
from tidegate.sources.configured import ConfiguredSource, every, once
from tidegate.sources.source import RawBatch, Source, SourceColumns, SourceError

__all__ = [
    "Batches",
    "ConfiguredSource",
    "RawBatch",
    "Source",
    "SourceColumns",
    "SourceError",
    "every",
    "once",
    "raw_batch",
]
