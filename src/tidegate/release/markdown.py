"""Cards as Markdown, for people to read."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.data.predicted import predicted_on_card
from tidegate.privacy.meaning import meaning
from tidegate.privacy.meaning import name as privacy_name
from tidegate.release.card import Card, protects_of
from tidegate.release.verdict import PLUS_MINUS, in_words, margin


def to_markdown(card: Card) -> str:
    """A card as Markdown: the guarantee, what an auditor can check, then all entries."""
    epsilon, delta = card["budget"]["epsilon"], card["budget"]["delta"]
    protects = protects_of(card)
    unit = "mu" if "mu" in card else "epsilon"
    title = [f"# Release {card['release']}", ""]
    if card["warning"]:
        warning = escaped(str(card["warning"]))
        title += [f"**{warning}**: the guarantee below holds for no release of this run.", ""]
    title += [
        f"All that is ever released about {protects.words.in_stream}, this model included, is "
        f"{privacy_name(epsilon, delta)}. {meaning(epsilon, delta, protects)}",
        "From this card, without any record, an auditor can recompute the plan, the share of every "
        "fit and the noise that this share requires, and check that no record's shares add up to "
        "more than 1. With the weights and the hash of the release before, an auditor can also "
        "recompute the hash of this release.",
    ]
    if protects.persons:
        title.append(
            "Whose a record is stands on no card. So only `tidegate verify`, on the state itself, "
            "can check that no person's records cost more than that."
        )
    rows = {
        "records read": f"{card['start']} to {card['stop'] - 1}, after {card['at']} had arrived",
        "sample": card["sample"] or "all of them",
        "stream": card["stream"],
        "fit": f"{card['fit']}, level {card['level']}",
        "prior": "none" if card["prior"] is None else f"the model of fit {card['prior']}",
        "started from": _started_from(card),
        "schedule": _words(card.get("schedule")),
        "allocation": _words(card.get("allocation")),
        "share": f"{card['share']} (about {card['share_rounded_down']:.6g})",
        "slot weights": _slot_weights(card.get("emphasis", []), unit),
        unit: f"{card[unit]:.6g} for this fit",
        "budget": f"epsilon {epsilon:g}, delta {delta:g}, for ever",
        "protects": protects.words.limits or None,
        "neighbours": card["neighbours"],
        "learner": _words(card.get("learner")),
        **{key.replace("_", " "): f"{value:.6g}" for key, value in card["settings"].items()},
        "loss": _words(card.get("loss")),
        "norm": card.get("norm"),
        "regularization": card.get("regularization"),
        **predicted_on_card(card).rows(),
        "features": ", then ".join(str(_words(step)) for step in card.get("features", []))
        or "unchanged",
        "dtype": card.get("dtype"),
        "columns": ", ".join(card.get("columns") or []) or None,
        "label": card.get("label"),
        "weights": " x ".join(map(str, card["shape"])),
        "transform": _transform(card.get("transform")),
        "survey": _survey(card),
        **_evaluations(card.get("evaluation") or {}),
        "versions": _words(card.get("versions")),
        "time": card.get("time"),
        "private": "yes" if card["private"] else card["warning"],
    }
    table = _table({key: str(value) for key, value in rows.items() if value is not None})
    return "\n".join(title) + f"\n\n{table}\n"


def _started_from(card: Card) -> str | None:
    """At which model the descent of a base started, and what follows."""
    if card.get("started_from") is None:
        return None
    memory = ", so this model also remembers older records" if card["start"] > 0 else ""
    return f"the model of fit {card['started_from']}{memory}"


def _transform(stated: Any) -> str | None:
    """How features are transformed, in words."""
    if not stated:
        return None
    mixed = "centred, scaled and decorrelated" if "mix" in stated else "centred and scaled"
    return f"{mixed} by the surveys so far"


def _survey(card: Card) -> str | None:
    """The survey of the release's step, in words."""
    survey = card.get("survey")
    if not survey:
        return None
    noise = f"{100 * margin(survey['deviation']):.1f}"
    names = predicted_on_card(card).label_words
    shares = zip(names, survey["parts" if "parts" in survey else "classes"], strict=False)
    most = [f"{name} {100 * share:.1f} %" for name, share in list(shares)[:MAX_CLASSES_LISTED]]
    left = len(names) - len(most)
    classes = ", ".join(most) + (f" and {left:,} more classes" if left > 0 else "")
    return (
        f"records {survey['start']} to {survey['stop'] - 1}, share {survey['share']}: {classes}, "
        f"unusable {100 * survey['unusable']:.1f} %, each ± {noise} ({PLUS_MINUS})"
    )


MAX_CLASSES_LISTED = 20
"""The most classes whose shares a card in Markdown lists."""


def _evaluations(evaluation: Mapping[str, Any]) -> Mapping[str, str | None]:
    """How good the models are: a row for the plain facts, one for what the scores tell."""
    facts = {name: _without_scores(part) for name, part in evaluation.items()}
    rows = {"evaluation": _words(facts) if facts else None}
    for name, words in (
        ("step_before", "scores of release"),
        ("holdout", "scores on the holdout"),
    ):
        part = evaluation.get(name) or {}
        if part.get("scores"):
            of = f" {part['of_release']}" if name == "step_before" else ""
            rows[f"{words}{of}"] = in_words(part["scores"])
    return rows


def _without_scores(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in part.items() if key not in {"scores", "noisy_counts"}}


def _slot_weights(slot_weights: Sequence[Sequence[Any]], unit: str) -> str:
    """The slot weights of a fit, in words."""
    if all(part == "1" for _, _, part in slot_weights):
        return "1 for all records"
    weights = f"from {slot_weights[0][2]} in the oldest to 1 in the newest of {len(slot_weights)}"
    charge = "e" if unit == "epsilon" else "e^2"
    return f"{weights} blocks; a record of slot weight e pays {charge} times the share"


def _words(thing: Mapping[str, Any] | None) -> str | None:
    """A card entry in one line.

    >>> _words({"kind": "SlidingWindow", "window": 70, "step": 10, "sample": None})
    'SlidingWindow (window 70, step 10)'
    """
    if thing is None:
        return None
    parts = [
        f"{key} {_words(value) if isinstance(value, Mapping) else value}"
        for key, value in thing.items()
        if key != "kind" and value is not None
    ]
    inside = ", ".join(parts)
    if "kind" not in thing:
        return inside
    return f"{thing['kind']} ({inside})" if inside else str(thing["kind"])


def escaped(text: str) -> str:
    r"""A text of a card so that Markdown shows it and does nothing with it, in one line.

    A class or a column can be named so that a reader's terminal or browser obeys it.

    >>> print(escaped("a|b\n<img> ![x](y) \x1b[2J"))
    a\|b &lt;img> ![x]\(y) \u001b[2J
    """
    plain = " ".join(text.split("\n"))
    written = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in plain)
    return written.replace("|", "\\|").replace("<", "&lt;").replace("](", "]\\(")


def _table(rows: Mapping[str, str]) -> str:
    """A Markdown table of two columns that line up as plain text too."""
    safe = {escaped(key): escaped(text) for key, text in rows.items()}
    left, right = max(map(len, safe)), max(map(len, safe.values()))
    lines = [
        f"| {'what':<{left}} | {'value':<{right}} |",
        f"|{'-' * (left + 2)}|{'-' * (right + 2)}|",
    ]
    lines += [f"| {key:<{left}} | {text:<{right}} |" for key, text in safe.items()]
    return "\n".join(lines)
