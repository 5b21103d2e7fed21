"""Sources: they deliver records in order, each exactly once and in a slot of its own.

A slot is a row of a Parquet file, a line of a CSV or JSON lines file, or a message of a broker.
Where the next slot starts never depends on what a record holds, so a record that cannot be read
takes only its own slot.
"""

from tidegate.gate.sources.batches import Batches, raw_batch
from tidegate.gate.sources.columns import Dtype, SourceColumns
from tidegate.gate.sources.csv_file import Csv
from tidegate.gate.sources.files import Files, every, once
from tidegate.gate.sources.json_lines import JsonLines, StandardInput
from tidegate.gate.sources.kafka_topic import KafkaTopic
from tidegate.gate.sources.nats_stream import NatsStream
from tidegate.gate.sources.parquet import Parquet
from tidegate.gate.sources.source import RawBatch, Source, SourceError

__all__ = [
    "Batches",
    "Csv",
    "Dtype",
    "Files",
    "JsonLines",
    "KafkaTopic",
    "NatsStream",
    "Parquet",
    "RawBatch",
    "Source",
    "SourceColumns",
    "SourceError",
    "StandardInput",
    "every",
    "once",
    "raw_batch",
]
