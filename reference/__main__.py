"""`python -m reference` writes the pages; with `--check` it only lists outdated ones."""

import sys
from pathlib import Path

from reference.pages import pages, stale

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


def main(folder: Path, *, check: bool) -> int:
    """Write the pages, or list the outdated ones and return 1 if there are any."""
    texts = pages()
    old = stale(folder, texts)
    if check:
        for name in old:
            print(f"{folder.name}/{name} is outdated: run `make reference` and commit it")
        return int(bool(old))
    for name in old:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in texts:
            path.write_text(texts[name], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(FOLDER, check="--check" in sys.argv[1:]))
