"""[[features]]: one feature map. The keys are the parameters of the map."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tidegate.data.feature_map import NamedMap, Pinned, configurable
from tidegate.kinds import build, checks_of, values_of
from tidegate.run.config.keys import KindTable, key, one_of_kinds, read_keys


@dataclass(frozen=True, kw_only=True)
class FeatureTable(KindTable):
    """A feature map by its registered name."""

    map: str = key(one_of_kinds(configurable), "the name of the map")

    @property
    def takes_text(self) -> bool:
        """Whether the map takes text rather than numbers."""
        return configurable()[self.map].takes_text

    def without_folders(self) -> Self:
        """The table with its files by name: a frozen file may move, as long as it is the same."""
        built = self.build()
        if not isinstance(built, Pinned) or built.digest is None:
            return self
        names = {name: Path(self.parameters[name]).name for name in built.files}
        return replace(self, parameters={**self.parameters, **names})

    def build(self) -> NamedMap:
        """The feature map. An empty list stands for None, which TOML lacks."""
        given = {name: None if v == () else v for name, v in self.parameters.items()}
        return build(configurable(), self.map, given)


def feature_table(path: str, given: object) -> FeatureTable:
    """Read the table, and report every mistake with the path of its key."""
    maps = configurable()
    chosen = given.get("map") if isinstance(given, Mapping) else None
    checks = {**checks_of({"": FeatureTable}, None), **checks_of(maps, chosen)}
    return read_keys(path, given, checks, {"map"}, _table_of_map)


def _table_of_map(map: str, **given: Any) -> FeatureTable:  # noqa: A002 (the name of the key)
    table = FeatureTable(map=map, parameters=given)
    built = table.build()
    if isinstance(built, Pinned):
        built = built.pinned()  # checks the parameters and files, unless they are pinned already
    else:
        built.transform([""] if table.takes_text else np.zeros((1, 1)))  # checks the parameters
    return FeatureTable(map=map, parameters={**values_of(built), **given})
