"""All pages of docs/reference/."""

from collections.abc import Mapping
from pathlib import Path

from reference.commands import command_page
from reference.interface import MODULES, interface_pages
from reference.markdown import heading, page, table
from reference.settings import settings_page

INTRODUCTION = "Generated from the code: `make reference` writes these pages, and a test fails if they are outdated."

PUBLIC = "These names are public: [what is supported](../support.md#what-is-public) says what you can rely on."


def pages() -> dict[str, str]:
    """The text of each page, by its path inside docs/reference/."""
    api = {f"api/{name}": text for name, text in interface_pages().items()}
    return {
        "README.md": _index(),
        "cli.md": command_page(),
        "configuration.md": settings_page(),
        **api,
    }


def _index() -> str:
    rows = [
        ("[command line](cli.md)", "all commands and their options"),
        ("[configuration](configuration.md)", "all sections and keys of the TOML file"),
    ]
    modules = [(f"[`{name}`](api/{name}.md)", ABOUT[name]) for name in MODULES]
    return page(
        heading(1, "Reference"),
        INTRODUCTION,
        table(("page", "contents"), rows),
        heading(2, "Python"),
        PUBLIC,
        table(("module", "contents"), modules),
    )


ABOUT = {
    "tidegate": "what most programs need: estimators, budgets, plans, the Gate, the client",
    "tidegate.schedule": "which fits happen when",
    "tidegate.privacy": "budgets, shares, the ledger and its certificate",
    "tidegate.learn": "losses, learners and the certified minimiser",
    "tidegate.features": "feature maps",
    "tidegate.estimators": "the scikit-learn estimators",
    "tidegate.gate": "the durable runtime and its configuration",
    "tidegate.compute": "where the sums of a fit are computed",
    "tidegate.compare": "methods on public records, side by side, and what to add one of your own",
}
"""The public modules, in the order of the index."""


def stale(folder: Path, texts: Mapping[str, str]) -> list[str]:
    """The pages in a folder that are missing, outdated or superfluous."""
    there = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.glob("**/*.md")
    }
    return sorted(name for name in {*there, *texts} if there.get(name) != texts.get(name))
