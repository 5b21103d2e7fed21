"""All configurations of the freeze, and how they are compared with what is frozen."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.freeze import estimator_list, lives, old_states, sent_gates, table_gates
from tests.freeze.made import Configuration, fixed_bits
from tests.freeze.parts import Part, parts_of

FROZEN = Path(__file__).parent / "frozen.json"
HOW = "python -m tests.freeze"

CONFIGURATIONS: dict[str, Configuration] = {
    each.name: each
    for module in (estimator_list, sent_gates, table_gates, lives, old_states)
    for each in module.CONFIGURATIONS
}


def computed(configuration: Configuration) -> dict[str, Part]:
    """The parts of what a configuration makes now."""
    with TemporaryDirectory(prefix="freeze-") as folder, fixed_bits():
        return parts_of(configuration.make(Path(folder)))


def frozen_values() -> dict[str, str]:
    """What is frozen: the value of each part of each configuration, by `name: part`."""
    found: dict[str, str] = json.loads(FROZEN.read_text(encoding="utf-8"))
    return found


def write_frozen(values: dict[str, str]) -> None:
    """Write what is frozen, a line for each part."""
    text = json.dumps(values, indent=0, sort_keys=True, ensure_ascii=False)
    FROZEN.write_text(f"{text}\n", encoding="utf-8")


def key(name: str, part: str) -> str:
    """Where `frozen.json` has a part."""
    return f"{name}: {part}"


def changed(name: str, parts: dict[str, Part], values: dict[str, str]) -> list[str]:
    """The parts that are not as they were frozen, also those that are new or gone."""
    there = {each.removeprefix(key(name, "")) for each in values if each.startswith(key(name, ""))}
    differ = {part for part, each in parts.items() if not each.same(values.get(key(name, part)))}
    return sorted(differ | (there - parts.keys()))


def complaint(name: str, parts: list[str], folder: Path) -> str:
    """One line that says what changed, and how to look at it."""
    return (
        f"{name}: {', '.join(parts)} changed; as they are now: {folder}/; as they were: "
        f"{HOW} --show FOLDER '{name}' at a commit that passes, then diff -r both folders"
    )
