"""Slot weights in the database: those that follow from the settings are not written out.

A fit of a growing stream weighs every block so far, so that writing the weights of each fit takes
space quadratic in the number of fits. The texts of a fit and of its card say "planned" instead.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from tidegate.gate.config.config import Config
from tidegate.gate.database import Database
from tidegate.gate.store import UNREADABLE, readable
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.release import canonical
from tidegate.schedule import SlotWeight

KEY, PLANNED = "emphasis", "planned"
SHORT, LONG = f'"{KEY}":"{PLANNED}"', f'"{KEY}":[['


class PlannedWeights:
    """Slot weights as the plan says them, by the settings that a state was made with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: tuple[int, Sequence[SlotWeight]] = (-1, ())  # asked for, again and again

    @cached_property
    def _plan(self) -> Plan | TwoStreamPlan:
        (settings,) = self._database.execute("SELECT settings FROM state").fetchone()
        return Config.from_json(settings).plan()

    @readable("a fit or its card in the database")
    def fields(self, text: str) -> dict[str, Any]:
        """What the text of a fit or of its card says, slot weights included."""
        fields: dict[str, Any] = json.loads(text)
        if SHORT not in text:
            return fields
        if canonical(fields) != text:  # whoever edited it has left the history as it was
            raise ValueError(text)
        return {**fields, KEY: self._planned(fields)}

    @readable("a fit or its card in the database")
    def written_out(self, text: str) -> str:
        """The text of a fit or of its card with its slot weights, as it was when it was made."""
        return canonical(self.fields(text)) if SHORT in text else text

    def left_out(self, text: str) -> str:
        """The text without slot weights, if `written_out` gives it back to the letter."""
        if LONG in text:
            with suppress(*UNREADABLE):  # a store whose settings say no plan keeps them
                fields = json.loads(text)
                if canonical({**fields, KEY: self._planned(fields)}) == text:
                    return canonical({**fields, KEY: PLANNED})
        return text

    def _planned(self, fields: Mapping[str, Any]) -> list[Any]:
        """The slot weights of a fit, in the form that the text of a fit or of a card has."""
        is_card = "fit" in fields
        number = fields["fit" if is_card else "number"]
        if number != self._newest[0]:
            lines = self._plan.due(fields["at"]) if isinstance(self._plan, Plan) else []
            (fit,) = (line.fit for line in lines if line.fit.number == number)
            self._newest = (number, fit.slot_weights)
        return [
            [*span, str(part)] if is_card else [span, str(part)] for span, part in self._newest[1]
        ]
