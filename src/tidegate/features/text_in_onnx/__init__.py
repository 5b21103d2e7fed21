"""Hashed text as part of an ONNX graph, with the same result for every text."""

from tidegate.features.text_in_onnx.grams import MAX_FEATURES, hashed_grams

__all__ = ["MAX_FEATURES", "hashed_grams"]
