"""Gates whose records are tables, texts or images: columns of every kind, maps and encoders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.data.encoders import (
    write_image_model,
    write_table,
    write_text_model,
    write_tokenizer,
)
from tests.freeze import records
from tests.freeze.gates import Batch, Tables, gate, person, table, tables
from tests.freeze.made import Configuration
from tests.freeze.sent_gates import (
    CONTINUAL,
    FADING,
    NOT_SCORED,
    NOT_SURVEYED,
    SLIDING,
    cut,
    learner,
    on_server,
    questions,
)

GAPS: list[str] = []
AGE = {"name": "age", "kind": "number", "low": 0.0, "high": 100.0, "log": False, "gaps": ["?"]}
COST = {"name": "cost", "kind": "number", "low": 1.0, "high": 256.0, "log": True, "gaps": GAPS}
WARD = {"name": "ward", "kind": "category", "values": ["A", "B", "é"], "gaps": GAPS}
CODE = {"name": "code", "kind": "category", "hash": 8, "gaps": GAPS}
SMOKER = {"name": "smoker", "kind": "flag", "gaps": GAPS}
PARTS = ["hour", "weekday", "month", "year"]
SEEN = {"name": "seen", "kind": "time", "parts": PARTS, "low": 2000, "high": 2030, "gaps": GAPS}
HOURS = {"name": "seen", "kind": "time", "parts": ["hour"], "gaps": GAPS}
NOTE = {
    "name": "note",
    "kind": "text",
    "size": 16,
    "words": [1, 1],
    "characters": [3, 3],
    "length": 256,
    "gaps": GAPS,
}
POINT = {"name": "point", "kind": "vector", "size": 3, "norm": 1.5, "gaps": GAPS}
FULL_AGE = {**AGE, "gaps": False}
FULL_WARD = {**WARD, "values": ["A", "B", "C", "é"], "others": False, "gaps": False}
DENSE: list[dict[str, Any]] = [AGE, COST, WARD, CODE, SMOKER, SEEN]

LABELLED: Tables = {
    "records": {
        "classes": ["well", "ill"],
        "label": "y",
        "dtype": "float32",
        "spelling": 2,
        "norm": 3.0,
    }
}
STAY: Tables = {
    "records": {
        "target": [0.0, 12.0],
        "label": "stay",
        "dtype": "float32",
        "spelling": 2,
        "norm": 3.0,
    },
    **learner("gradient", "squared"),
}
CUTS: Tables = {
    "records": {
        "classes": ["short", "mid", "long"],
        "cuts": [4.0, 8.0],
        "label": "stay",
        "dtype": "float32",
        "spelling": 2,
        "norm": 3.0,
    },
    **learner("gradient", "softmax"),
}
NUMBERS: Tables = {
    "records": {
        "classes": ["well", "ill"],
        "label": "y",
        "columns": ["age", "cost"],
        "norm": 128.0,
        "dtype": "float64",
        "spelling": 1,
    }
}
TEXTS: Tables = {
    "records": {
        "classes": [0, 1],
        "norm": 1.0,
        "text": "note",
        "label": "y",
        "dtype": "float32",
        "spelling": 2,
    }
}
UNMEASURED: Tables = {**NOT_SURVEYED, **NOT_SCORED}
SLIDE: Tables = {"schedule": SLIDING}


def columns(*described: dict[str, Any]) -> Tables:
    return {"columns": list(described)}


def rows(n: int = 230) -> list[dict[str, Any]]:
    return records.visits(n)


def points(n: int = 230) -> list[dict[str, Any]]:
    """Rows with a list of numbers; a few lists are too short."""
    X = records.numbers(n)[0].tolist()
    return [
        {**row, "point": point[: 2 if slot % 31 == 9 else 3]}
        for slot, (row, point) in enumerate(zip(rows(n), X, strict=True))
    ]


def tabled() -> list[Configuration]:
    """Tables in files."""
    return [
        table("columns", tables(LABELLED, SLIDE, columns(*DENSE)), rows),
        table("columns of a target", tables(STAY, SLIDE, columns(*DENSE)), rows),
        table(
            "columns with cuts",
            tables(CUTS, {"schedule": CONTINUAL}, columns(AGE, CODE, HOURS)),
            rows,
            sampled=True,
        ),
        table("columns with text", tables(LABELLED, SLIDE, columns(AGE, NOTE)), rows, kind="jsonl"),
        table(
            "columns with vectors",
            tables(LABELLED, SLIDE, columns(AGE, POINT)),
            points,
            kind="jsonl",
        ),
        table("columns without gaps", tables(LABELLED, SLIDE, columns(FULL_AGE, FULL_WARD)), rows),
        table(
            "columns of persons",
            tables(LABELLED, {"schedule": FADING}, person(2), columns(*DENSE)),
            rows,
        ),
        table("columns in parquet", tables(LABELLED, SLIDE, columns(*DENSE)), rows, kind="parquet"),
        table("columns of numbers", tables(NUMBERS, SLIDE), rows, numbers=["age", "cost"]),
    ]


def mapped(*maps: dict[str, Any]) -> Tables:
    return {"features": list(maps)}


INTERCEPT = {"map": "intercept", "value": 0.5}
HASHED = {"map": "text", "n_features": 64, "words": [1, 2], "characters": [3, 4]}
FOURIER = {"map": "fourier", "n_components": 6, "gamma": 0.5, "seed": 3}
PROJECTION = {"map": "projection", "n_components": 2, "seed": 3}
SCATTERING = {"map": "scattering", "width": 8}


def said() -> list[Batch]:
    return cut(*records.texts(230))


def images() -> list[Batch]:
    return cut(*records.numbers(210, 64))


def plain() -> list[Batch]:
    return cut(*records.with_gaps(230))


def noted() -> list[str]:
    return records.texts(15, seed=9)[0]


def text_encoder(folder: Path) -> Tables:
    model, tokenizer = write_text_model(folder), write_tokenizer(folder)
    return mapped({"map": "encoder", "encoder": model, "tokenizer": tokenizer, "length": 64})


def text_table(folder: Path) -> Tables:
    model, tokenizer = write_table(folder), write_tokenizer(folder)
    return mapped({"map": "encoder", "encoder": model, "tokenizer": tokenizer, "length": 64})


def text_column(folder: Path) -> Tables:
    files = {"encoder": write_text_model(folder), "tokenizer": write_tokenizer(folder)}
    return columns(AGE, {**NOTE, **files})


def noted_rows() -> list[Batch]:
    table = rows()
    return cut(table, [each["y"] for each in table])


def image_encoder(folder: Path) -> Tables:
    image = {"map": "image_encoder", "encoder": write_image_model(folder)}
    pixels = {"height": 5, "width": 6, "channels": 3, "scale": 0.25, "mean": [], "deviation": []}
    return mapped({**image, **pixels})


def coloured() -> list[Batch]:
    return cut(*records.numbers(210, 90))


def through_maps() -> list[Configuration]:
    """Feature maps."""
    given: list[tuple[str, Tables, Callable[[], list[Batch]], Callable[[], Any]]] = [
        ("hashed text", {**TEXTS, **mapped(HASHED, INTERCEPT)}, said, noted),
        ("fourier", mapped(FOURIER, INTERCEPT), plain, questions),
        ("projection", mapped(PROJECTION), plain, questions),
        ("scattering", {**UNMEASURED, **mapped(SCATTERING)}, images, lambda: questions(64)),
    ]
    encoded = [
        ("encoded text", {**TEXTS, **UNMEASURED}, said, noted, text_encoder),
        ("text in a table of vectors", {**TEXTS, **UNMEASURED}, said, noted, text_table),
        (
            "encoded text in a column",
            {**LABELLED, **UNMEASURED},
            noted_rows,
            lambda: rows()[21:37],
            text_column,
        ),
        ("encoded images", UNMEASURED, coloured, lambda: questions(90), image_encoder),
    ]
    return [
        *(gate(name, tables(SLIDE, own), fed, asked) for name, own, fed, asked in given),
        *(
            gate(name, tables(SLIDE, own), fed, asked, files=files)
            for name, own, fed, asked, files in encoded
        ),
        gate(
            "hashed text on postgres",
            tables(SLIDE, TEXTS, mapped(HASHED, INTERCEPT)),
            said,
            noted,
            files=on_server,
            postgres=True,
        ),
    ]


CONFIGURATIONS = [*tabled(), *through_maps()]
