"""`tidegate explain`: the definitions of Tidegate's terms."""

import click

from tidegate.cli import options
from tidegate.cli.screen import Screen
from tidegate.glossary import GLOSSARY, TERMS, definition

EPILOG = """\b
Examples:
  tidegate explain share
  tidegate explain slot weight
  tidegate explain                       all terms
"""


@click.command(epilog=EPILOG)
@click.argument("term", nargs=-1)
@options.form
def explain(term: tuple[str, ...], form: str) -> None:
    """Explain a TERM, or list all terms."""
    name = " ".join(term)
    if form == "json":
        definitions = {name: definition(name)} if term else TERMS
        options.show(
            ({"term": each, "meaning": words} for each, words in definitions.items()), form
        )
    elif term:
        Screen().print(definition(name))
    else:
        for subject, terms in GLOSSARY.items():
            Screen().print(f"{subject}: {', '.join(terms)}")
        click.echo("\nTo explain one of them: tidegate explain TERM")
