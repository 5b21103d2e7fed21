"""Compare what configurations make now with what is frozen, and freeze it anew if asked to."""

import argparse
import sys
import warnings
from pathlib import Path
from tempfile import gettempdir

from tests.freeze.catalogue import (
    CONFIGURATIONS,
    FROZEN,
    HOW,
    changed,
    complaint,
    computed,
    frozen_values,
    key,
    write_frozen,
)
from tests.freeze.parts import write


def main() -> int:
    """Tell what changed; the exit code is 1 if anything did and nothing was written."""
    parser = argparse.ArgumentParser(prog=HOW, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="configurations [all]")
    parser.add_argument("--write", action="store_true", help="freeze what they make now")
    parser.add_argument("--show", type=Path, metavar="FOLDER", help="write all parts here, to read")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in CONFIGURATIONS]:
        parser.error(f"no such configuration: {', '.join(unknown)}; there are {[*CONFIGURATIONS]}")
    warnings.simplefilter("ignore")
    values = frozen_values() if FROZEN.exists() else {}
    folder = given.show or Path(gettempdir()) / "freeze"
    found, differ = dict(values), 0
    for name in given.names or CONFIGURATIONS:
        parts = computed(CONFIGURATIONS[name])
        other = changed(name, parts, values)
        if other or given.show:
            write(parts, folder / name)
        if other:
            print(complaint(name, other, folder / name))
        differ += len(other)
        for part in other:
            found.pop(key(name, part), None)
        found |= {key(name, part): parts[part].frozen for part in other if part in parts}
    if not given.names:
        names = tuple(key(name, "") for name in CONFIGURATIONS)
        found = {each: value for each, value in found.items() if each.startswith(names)}
    if given.write and found != values:
        write_frozen(found)
        print(f"wrote {FROZEN}: name what changed in CHANGELOG.md, and why")
        return 0
    print(f"{differ} parts changed" + (f"; {HOW} --write freezes them" if differ else ""))
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
