"""`tidegate weights`: the weights of a release, by the names of their features."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from tidegate.cli import options
from tidegate.cli.chosen_model import chosen_model, number
from tidegate.cli.options import PATH, count
from tidegate.release import Model, RegressionModel

Row = dict[str, Any]

MAX_CLASS_COLUMNS = 4
"""The most classes with a column of their own: more do not fit 80 characters."""

EPILOG = """\b
Examples:
  tidegate weights tidegate.state
  tidegate weights published --release 12 --top 50
  tidegate weights model.safetensors --format json
"""


@click.command(epilog=EPILOG)
@click.argument("model", type=PATH)
@number
@click.option(
    "--top",
    type=count(least=1),
    default=20,
    show_default=True,
    help="Most features in the table; JSON has all.",
)
@options.form
def weights(model: Path, number: int | None, top: int, form: str) -> None:
    """Show the weights of a release by the names of their features, largest effect first.

    MODEL is a state, a folder of published releases, or an exported .safetensors, .npz or .onnx
    file. A weight is per unit of its feature: the centre and scale of the survey are undone. If a
    feature is a column with a range, `unit` says how much of the column makes one unit. `scaled` is
    the weight after the model has scaled the feature, so it can be compared between columns of
    different units; the table is sorted by it.

    This costs no budget: the release has been paid for, and anyone who has it can do the same.
    """
    release = chosen_model(model, number)
    found = release.model()
    rows = weight_rows(found)
    intercepts = _by_class(found, found.intercept_)
    if form == "json":
        options.show([*rows, {"release": release.number, "intercept": intercepts}], form)
        return
    shown = [_flat(row) for row in rows[:top]]
    options.show(shown, form, title=f"Weights of release {release.number:,}", folded="feature")
    if len(rows) > top:
        click.echo(f"{len(rows) - top:,} more features: --top {len(rows)} shows all")
    click.echo(_in_words(found, intercepts))


def weight_rows(model: Model | RegressionModel) -> list[Row]:
    """A row for each feature, the largest effect first; with classes, a weight for each margin."""
    found = model.coefficients
    factor = model.target.half if isinstance(model, RegressionModel) else 1.0
    return [
        {
            "feature": found.names[place],
            "unit": found.units[place],
            "weight": _by_class(model, factor * found.weights[:, place]),
            "scaled": _by_class(model, factor * found.scaled[:, place]),
        }
        for place in found.order
    ]


def _by_class(model: Model | RegressionModel, values: Any) -> Any:
    """One number, or with more than one margin a number for each class."""
    numbers = np.atleast_1d(values).tolist()
    if len(numbers) == 1:
        return numbers[0]
    return dict(zip(map(str, getattr(model, "classes", ())), numbers, strict=True))


def _flat(row: Row) -> Row:
    """A row for a terminal: a column for each class, or only the class with the largest weight."""
    weight, scaled = row["weight"], row["scaled"]
    unit = {} if row["unit"] == 1 else {"unit": row["unit"]}  # raw columns need none
    if not isinstance(weight, dict):
        return {"feature": row["feature"], **unit, "weight": weight, "scaled": scaled}
    if len(weight) <= MAX_CLASS_COLUMNS:
        columns = {f"for {name[:10]}": value for name, value in weight.items()}
        return {"feature": row["feature"], **unit, **columns}
    largest = max(scaled, key=lambda name: abs(scaled[name]))
    return {
        "feature": row["feature"],
        **unit,
        "class": largest,
        "weight": weight[largest],
        "scaled": scaled[largest],
    }


def _in_words(model: Model | RegressionModel, intercepts: Any) -> str:
    """The lines below the table: the intercept, and what a weight changes."""
    if isinstance(model, RegressionModel):
        return f"Intercept: {intercepts:.4g}. A weight is in the unit of the target."
    if not isinstance(intercepts, dict):
        second = model.classes[1]
        return (
            f"Intercept: {intercepts:.4g}. A weight above 0 speaks for {second}: it adds to its "
            "log-odds."
        )
    listed = ", ".join(
        f"{name} {each:.4g}" for name, each in [*intercepts.items()][:MAX_CLASS_COLUMNS]
    )
    more = ", ..." if len(intercepts) > MAX_CLASS_COLUMNS else ""
    return f"Intercepts: {listed}{more}.\nA weight above 0 speaks for its class."
