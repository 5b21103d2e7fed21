import gzip
import json
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

from tests.data_sets import data_set
from tidegate.checks import InvalidValueError
from tidegate_lab.paper.datasets import (
    ARCHIVES,
    Images,
    digit_stream,
    mnist,
    snapshot,
    title_stream,
    titles,
    words,
)

TABLE = """id\tdate\tcategory\ttitle
2\t1993-01-02\thep-th\tStrings and tides
1\t1993-01-01\tmath\tOn the ebb
3\t1993-01-03\talg-geom\tOf an archive that is no more
"""


def write_mnist(folder: Path, train: Images, test: Images) -> None:
    for part, (pixels, labels) in {"train": train, "t10k": test}.items():
        images = gzip.compress(bytes(16) + pixels.tobytes())
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(images)
        digits = gzip.compress(bytes(8) + labels.astype(np.uint8).tobytes())
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(digits)


def drawn(n: int) -> Images:
    rng = np.random.default_rng(n)
    return Images(rng.integers(256, size=(n, 28, 28), dtype=np.uint8), rng.integers(10, size=n))


def test_the_original_files_are_read_as_they_are(tmp_path: Path) -> None:
    written = drawn(7), drawn(3)
    write_mnist(tmp_path, *written)
    for part, expected in zip(mnist(tmp_path), written, strict=True):
        np.testing.assert_array_equal(part.pixels, expected.pixels)
        np.testing.assert_array_equal(part.labels, expected.labels)


def test_without_a_folder_mnist_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any, **__: Any) -> Any:
        raise URLError("no network")

    def online(*_: Any, **__: Any) -> Any:
        return np.broadcast_to(np.uint8(1), (70_000, 784)), np.broadcast_to("7", (70_000,))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", online)
    train, test = mnist()
    assert train.pixels.shape == (60_000, 28, 28)
    assert test.labels.tolist() == [7] * 10_000
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    with pytest.raises(InvalidValueError, match="TIDEGATE_DATA"):
        mnist()


def test_digits_lie_in_the_unit_ball() -> None:
    stream = digit_stream(drawn(20), drawn(5))
    assert np.linalg.norm(stream.records.X, axis=1).max() <= 1
    assert stream.test(0).X.shape == (5, 784)


def test_a_table_of_titles_is_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "titles.tsv.gz"
    path.write_bytes(gzip.compress(TABLE.encode()))
    found = titles(path)
    assert found.archives == ("math", "hep-th")
    assert found.texts == ("On the ebb", "Strings and tides")
    assert found.dates.astype(str).tolist() == ["1993-01-01", "1993-01-02"]


def test_a_snapshot_gives_the_articles_of_one_year_and_one_archive(tmp_path: Path) -> None:
    def article(categories: str, created: str) -> str:
        versions = [{"version": "v1", "created": created}, {"version": "v2", "created": "later"}]
        title = f"Of\n  {categories}"
        return json.dumps({"categories": categories, "versions": versions, "title": title}) + "\n"

    path = tmp_path / "snapshot.json"
    path.write_text(
        article("math.CO math.NT", "Mon, 2 Apr 2007 19:18:42 GMT")
        + article("hep-ph", "Mon, 1 Jan 2007 00:00:00 GMT")
        + article("math.CO cs.CG", "Mon, 2 Apr 2007 19:18:42 GMT")
        + article("hep-th", "Wed, 2 Jan 2008 19:18:42 GMT")
    )
    found = snapshot(path)
    assert found.archives == ("hep-ph", "math")
    assert found.texts == ("Of hep-ph", "Of math.CO math.NT")
    with pytest.raises(InvalidValueError, match="at least one"):
        snapshot(path, year=1999)


def test_a_quarter_of_the_titles_tests_and_the_rest_stays_in_order() -> None:
    rows = np.arange(40.0)[:, None]
    stream = title_stream(rows, ["math", "cs"] * 20, seed=1)
    held_out = stream.test(0).X[:, 0]
    assert len(held_out) == 10
    assert (np.diff(stream.records.X[:, 0]) > 0).all()
    assert sorted([*held_out, *stream.records.X[:, 0]]) == list(range(40))
    expected = [ARCHIVES.index("cs" if int(x) % 2 else "math") for x in held_out]
    assert stream.test(0).y.tolist() == expected


def test_words_depend_on_their_own_title_alone() -> None:
    both, one = words(["strings and tides", "on the ebb"]), words(["on the ebb"])
    assert abs(both[[1]] - one).sum() == 0


@pytest.mark.thorough
def test_the_real_ones() -> None:
    train, test = mnist(data_set("mnist"))
    assert (len(train.labels), len(test.labels)) == (60_000, 10_000)
    found = titles(data_set("arxiv", "titles-1993-1996.tsv.gz"))
    assert len(found.texts) == 36_032
    assert (np.diff(found.dates).astype(int) >= 0).all()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for read in (mnist, lambda folder: titles(folder / "titles.tsv.gz")):
        with pytest.raises(InvalidValueError, match=r"\.gz is missing on the machine"):
            read(tmp_path)
