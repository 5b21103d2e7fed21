"""Encoders: public frozen models that turn texts and images into features.

A record's features depend on that record and on files that never change: docs/proofs/encoders.md.
"""

from pathlib import Path

from tidegate.checks import refuse
from tidegate.data.encoder.encoder import LENGTH, Encoder, path
from tidegate.data.encoder.onnx_model import OnnxImage, OnnxText
from tidegate.data.encoder.token_table import TokenTable

__all__ = ["Encoder", "OnnxImage", "OnnxText", "TokenTable", "text_encoder"]

TEXTS: dict[str, type[Encoder]] = {".onnx": OnnxText, ".safetensors": TokenTable}


def text_encoder(
    encoder: str, tokenizer: str, length: int = LENGTH, digest: str | None = None
) -> Encoder:
    """Open the encoder of texts in a file, of the kind that the file's ending says.

    Args:
        encoder: The path of an .onnx or .safetensors file, relative to the working directory.
        tokenizer: The path of its tokenizer.json.
        length: The most tokens of a text that are read.
        digest: The `digest` of an encoder that was opened before: the files are then read when they
            are used, and refused if they have changed. By default they are read and checked now.
    """
    ending = Path(path("encoder", encoder)).suffix
    if ending not in TEXTS:
        allowed = f"a file that ends in {' or '.join(TEXTS)}"
        raise refuse("encoder", allowed, Path(encoder).name)
    path("tokenizer", tokenizer)
    return TEXTS[ending].open(encoder, tokenizer, length, digest)
