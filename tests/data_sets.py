"""Where the data sets are that some tests read: in the folder that TIDEGATE_DATA names."""

import os
from pathlib import Path

import pytest

from tests.left_out import NO_DATA


def data_set(*parts: str) -> Path:
    """A file or folder of a data set; without one the test is skipped."""
    folder = os.environ.get("TIDEGATE_DATA")
    if not folder:
        pytest.skip(NO_DATA)
    path = Path(folder, *parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(parts)} in the folder that TIDEGATE_DATA names")
    return path
