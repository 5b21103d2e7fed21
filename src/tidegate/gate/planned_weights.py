"""Leave out slot weights that follow from the settings when fits are stored.

A fit of a growing stream has a weight for every block so far. Storing them all would take space
quadratic in the number of fits, so the JSON of a fit and of its card says "planned" instead.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from tidegate.checks import json_of
from tidegate.gate.config.config import Config
from tidegate.gate.database import Database
from tidegate.gate.store import UNREADABLE, readable
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.release import canonical
from tidegate.schedule import SlotWeight

KEY, PLANNED = "emphasis", "planned"
SHORT, LONG = f'"{KEY}":"{PLANNED}"', f'"{KEY}":[['


class PlannedWeights:
    """Computes slot weights from the plan in the settings of a state."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: tuple[int, Sequence[SlotWeight]] = (-1, ())  # a cache of the last fit

    @cached_property
    def _plan(self) -> Plan | TwoStreamPlan:
        (settings,) = self._database.execute("SELECT settings FROM state").fetchone()
        return Config.from_json(settings).plan()

    @readable("a fit or its card in the database")
    def fields(self, text: str) -> dict[str, Any]:
        """Parse the JSON of a fit or of its card, with slot weights."""
        fields: dict[str, Any] = json_of(text)
        if SHORT not in text:
            return fields
        if canonical(fields) != text:  # an edit that the history would not show
            raise ValueError(text)
        return {**fields, KEY: self._planned(fields)}

    @readable("a fit or its card in the database")
    def written_out(self, text: str) -> str:
        """The JSON of a fit or of its card with slot weights, as it was before it was stored."""
        return canonical(self.fields(text)) if SHORT in text else text

    def left_out(self, text: str) -> str:
        """The JSON without slot weights, if `written_out` restores it exactly."""
        if LONG in text:
            with suppress(*UNREADABLE):  # without a plan in the settings, keep them
                fields = json_of(text)
                if canonical({**fields, KEY: self._planned(fields)}) == text:
                    return canonical({**fields, KEY: PLANNED})
        return text

    def _planned(self, fields: Mapping[str, Any]) -> list[Any]:
        """The slot weights of a fit, as the JSON of a fit or of a card has them."""
        is_card = "fit" in fields
        number = fields["fit" if is_card else "number"]
        if number != self._newest[0]:
            lines = self._plan.due(fields["at"]) if isinstance(self._plan, Plan) else []
            (fit,) = (line.fit for line in lines if line.fit.number == number)
            self._newest = (number, fit.slot_weights)
        return [
            [*span, str(part)] if is_card else [span, str(part)] for span, part in self._newest[1]
        ]
