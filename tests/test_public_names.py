"""What `dir` and `import *` show of the package."""

from importlib import import_module

import pytest

PACKAGES = [
    "",
    ".compare",
    ".gate",
    ".estimators",
    ".features",
    ".learn",
    ".privacy",
    ".release",
    ".schedule",
]


@pytest.mark.parametrize("name", [f"tidegate{each}" for each in PACKAGES])
def test_every_public_name_is_listed_and_there(name: str) -> None:
    module = import_module(name)
    assert set(module.__all__) <= set(dir(module))
    assert len(set(module.__all__)) == len(module.__all__)
    star: dict[str, object] = {}
    exec(f"from {name} import *", star)
    assert set(module.__all__) == star.keys() - {"__builtins__"}
    assert all(star[each] is getattr(module, each) for each in module.__all__)
