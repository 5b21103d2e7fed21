"""Hashed text as part of an ONNX graph, with the same result for every text."""

from tidegate.features.text_in_onnx.grams import MOST, hashed_grams

__all__ = ["MOST", "hashed_grams"]
