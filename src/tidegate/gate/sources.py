"""The earlier home of `tidegate.sources`, for programs that import sources from here."""

from tidegate.sources import Batches, RawBatch, Source, SourceColumns, SourceError, raw_batch

__all__ = ["Batches", "RawBatch", "Source", "SourceColumns", "SourceError", "raw_batch"]
