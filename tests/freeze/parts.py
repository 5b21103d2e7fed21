"""The parts of what a configuration made, each as a text that people can read and compare."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
import onnx
import safetensors.numpy as safetensors
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tests.cli.run import tidegate
from tests.freeze.inside import EXPORTS, InvalidValueError, StoredRelease
from tests.freeze.made import TIME, Made
from tidegate import TwoStreamPlan
from tidegate.privacy import Ledger, Tapered
from tidegate.schedule import Cumulative

NOT_FROZEN = {
    "time": "the time at which a release of an estimator was made",
    "versions": "the installed versions of packages and of Python",
    "history_sha256": "covers rows of the state, whose form is not public, and times",
    "privacy_settings_sha256": "covers the settings as a state keeps them, which is not public",
    "held_bytes": "the size of records as a state keeps them, which is not public",
    "hash": "covers all of the above",
    "previous": "covers all of the above",
}
"""The keys of cards, files and answers that are not frozen, and why. Releases that states of old
layouts have when they are opened were made long ago: their hashes are frozen, too."""

MEASURED = 6
"""To how many digits measures on cards are frozen: BLAS computes them, and their last bits depend
on the processor. The noisy counts behind them are exact."""

NOT_REPRODUCIBLE = {
    "OutputPerturbation": "BLAS computes the minimiser; where it is rounded to the lattice of the "
    "noise, another processor may be a step away, which later fits start from",
    "encoder": "ONNX Runtime computes the features, in single precision",
    "Scattering": "BLAS and Fourier transforms compute the features",
}
"""What makes weights that are not the same to the bit on every processor, and why. The numbers of
such configurations are compared with a tolerance, the rest byte for byte. Those with such features
have no surveys and scores, which would differ as well."""

CLOSE, NEAR_ZERO = 1e-3, 1e-5
"""The tolerance, relative and absolute; noise is far larger, so that another draw is noticed."""

PREDICTED = 1e-8
"""The tolerance of predictions with weights that are exact: BLAS and scikit-learn make them."""

FOLLOWING = {"noise_scale", "prior_norm", "sensitivity", "tolerance"}
"""The settings of a fit that depend on the weights that it starts from."""

MARKS = {
    *("survey", "protects", "target", "cuts", "emphasis", "transform", "evaluation", "refit"),
    "encoder",
}
"""Keys that only some cards have: `kinds` says which of them a configuration stands for."""


@dataclass(frozen=True)
class Part:
    """A part of what a configuration made.

    Attributes:
        text: The part, for people.
        shown: How `frozen.json` has it: by its digest, as it is, or as numbers that are compared
            with a tolerance.
        close: The tolerance, relative and absolute.
    """

    text: str
    shown: Literal["digest", "text", "numbers"] = "digest"
    close: tuple[float, float] = (CLOSE, NEAR_ZERO)

    @property
    def frozen(self) -> str:
        """The value in `frozen.json`."""
        if self.shown in {"text", "numbers"}:
            return self.text
        return sha256(self.text.encode()).hexdigest()

    def same(self, frozen: str | None) -> bool:
        """Whether the part is as it was frozen."""
        if frozen is None:
            return False
        if self.shown != "numbers":
            return self.frozen == frozen
        here, there = (np.array(text.split(), float) for text in (self.text, frozen))
        return here.shape == there.shape and np.allclose(here, there, *self.close)


def parts_of(made: Made) -> dict[str, Part]:
    """All parts of what a configuration made."""
    cards = [each.card for each in made.releases]
    kinds = sorted(set(_kinds(cards)))
    exact = not any(each.split()[-1] in NOT_REPRODUCIBLE for each in kinds)
    weights = [each.weights for each in made.releases]
    parts = {
        "weights": Part(_lines(map(_array, weights))) if exact else _numbers(weights),
        "cards": Part(_pretty([_card(each, exact) for each in cards])),
        "ledger": Part(_pretty({name: _ledger(made, name) for name in made.ledgers})),
        "certificate": Part(_pretty(_certificate(made))),
        "plan": Part(_plan(made)),
        "kinds": Part(", ".join(kinds), "text"),
        **{name: Part(text) for name, text in made.more.items()},
    }
    if not exact:
        parts["settings"] = _numbers(
            each["settings"][name]
            for each in cards
            for name in sorted(FOLLOWING & {*each["settings"]})
        )
    if made.questions is not None:
        newest = made.releases[-1]
        parts["npz"] = Part(_npz(newest, exact))
        parts["safetensors"] = Part(_safetensors(newest, exact))
        parts["onnx"] = Part(_onnx(newest, exact))
        if exact:
            parts["md"] = Part(_md(newest))
        parts["joblib"], predicted = _joblib(newest, made.questions)
        parts["predictions"] = _numbers([predicted], PREDICTED if exact else CLOSE)
    return parts


def _numbers(values: Iterable[Any], close: float = CLOSE) -> Part:
    """Numbers that are compared with a tolerance, whatever arrays they are in."""
    flat = [number for each in values for number in np.ravel(each).tolist()]
    digits = 6 if close == CLOSE else 10
    text = " ".join(f"{number:.{digits}g}" for number in flat)
    return Part(text, "numbers", (close, min(close, NEAR_ZERO)))


def _pretty(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _lines(values: Iterable[object]) -> str:
    return "".join(json.dumps(each) + "\n" for each in values)


def _array(values: NDArray[Any]) -> list[object]:
    """An array to the bit: its type, its shape, and its numbers, floats in hexadecimal."""
    plain = values.ravel().tolist()
    shown = [each.hex() if isinstance(each, float) else str(each) for each in plain]
    return [str(values.dtype), list(values.shape), shown]


def _card(card: Mapping[str, Any], exact: bool) -> dict[str, Any]:
    """A card without the keys that are not frozen, and with fewer digits of what is measured."""
    kept = {name: each for name, each in card.items() if name not in NOT_FROZEN}
    if not exact:
        settings = {name: each for name, each in kept["settings"].items() if name not in FOLLOWING}
        kept["settings"] = settings
    return {**kept, "evaluation": _measured(card["evaluation"])}


def _measured(value: Any) -> Any:
    """Measures with fewer digits; noisy counts as they are."""
    if isinstance(value, Mapping):
        exact = {"noisy_counts", "share"}
        return {k: each if k in exact else _measured(each) for k, each in value.items()}
    if isinstance(value, list):
        return [_measured(each) for each in value]
    return float(f"{value:.{MEASURED}g}") if isinstance(value, float) else value


def readable(lines: str) -> str:
    """Lines of JSON without the keys that are not frozen, with fewer digits of measures."""
    return "".join(_pretty(_measured(_without(json.loads(line)))) for line in lines.splitlines())


def _without(value: Any) -> Any:
    """A value of JSON without the keys that are not frozen, however deep they are."""
    if isinstance(value, Mapping):
        return {name: _without(each) for name, each in value.items() if name not in NOT_FROZEN}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _md(release: StoredRelease) -> str:
    """The card in Markdown, with another time and no versions and hashes."""
    kept = {name: each for name, each in release.card.items() if name not in NOT_FROZEN}
    measured = {"evaluation": _measured(kept["evaluation"])}
    fixed = {**kept, **measured, "time": TIME.isoformat(), "versions": {}}
    lines = EXPORTS["md"](replace(release, card=fixed)).decode().splitlines()
    return "\n".join(each for each in lines if not each.startswith(("Hash `", "after `"))) + "\n"


def _arrays(release: StoredRelease, arrays: Mapping[str, Any], exact: bool) -> object:
    """The arrays of a file; weights that are not the same everywhere must be the release's."""
    if exact:
        return {name: _array(each) for name, each in arrays.items()}
    assert _array(arrays["weights"]) == _array(release.weights), "a file has other weights"
    return {
        name: "as released" if name == "weights" else _array(each) for name, each in arrays.items()
    }


def _text(text: str, exact: bool) -> Any:
    """The metadata of a file without the keys that are not frozen."""
    stated = {name: each for name, each in json.loads(text).items() if name not in NOT_FROZEN}
    return {**stated, "card": _card(stated["card"], exact)}


def _ledger(made: Made, stream: str) -> object:
    """What each record of a stream has paid, by runs of records that have paid the same."""
    ledger: Ledger = made.ledgers[stream]
    paid = [ledger.paid(record) for record in range(made.counts[stream])]
    runs, start = [], 0
    for share, same in groupby(paid):
        stop = start + len(list(same))
        runs.append([start, stop, str(share)])
        start = stop
    worst = ledger.worst()
    most = {"record": worst.record, "share": str(worst.share)}
    return {"paid": runs, "worst": most, "fits": ledger.posted}


def _certificate(made: Made) -> object:
    plan = made.plan
    source = plan.source if isinstance(plan, TwoStreamPlan) else plan
    stated = {
        "supremum": str(source.certificate.supremum),
        "attained": source.certificate.attained,
        "first": plan.first,
        "forever": {name: str(share) for name, share in plan.forever.items()}
        if isinstance(plan, TwoStreamPlan)
        else str(plan.forever),
    }
    if isinstance(plan, TwoStreamPlan):
        target = plan.target.certificate
        stated |= {"target": [str(target.supremum), target.attained]}
    return stated


def _plan(made: Made) -> str:
    """What `tidegate plan` prints as JSON; of a schedule that it does not offer, the lines."""
    if isinstance(made.plan.schedule, Cumulative):
        return _lines(map(str, made.plan.lines(made.until)))
    words = [*plan_words(made.plan), "--until", str(made.until), "--format", "json"]
    done = tidegate("plan", *words)
    assert done.returncode == 0, done.stderr
    return f"# tidegate plan {' '.join(words)}\n{done.stdout}"


def plan_words(plan: Any) -> Iterator[str]:
    """The command line of a plan."""
    schedule, budget, person = plan.schedule, plan.budget, plan.person
    yield schedule.kind
    given: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "allocation": plan.allocation.name,
        "rate": plan.allocation.rate if isinstance(plan.allocation, Tapered) else None,
        "survey": plan.survey,
        "scores": plan.reserve,
    }
    if isinstance(plan, TwoStreamPlan):
        given["target-step"], schedule = schedule.step, schedule.source
    given |= {each.name: getattr(schedule, each.name) for each in fields(schedule)}
    if person is not None:
        given |= {name: getattr(person, name) for name in ("contributions", "period", "typical")}
    for name, value in given.items():
        if value is True:
            yield f"--{name}"
        elif value is not None and value is not False and value != Fraction(0):
            yield from (f"--{name}", str(value))


def _kinds(value: Any, place: str = "card") -> Iterator[str]:
    """What a configuration stands for: all kinds on its cards, and what is on some cards only."""
    if isinstance(value, Mapping):
        if "kind" in value:
            yield f"{place} {value['kind']}"
        for name, each in value.items():
            if name in MARKS and each:
                yield name
            if name == "dtype" and place == "card":
                yield each
            yield from _kinds(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _kinds(each, place)


def _npz(release: StoredRelease, exact: bool) -> str:
    with np.load(io.BytesIO(EXPORTS["npz"](release)), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    text = _text(str(arrays.pop("release")), exact)
    return _pretty({"arrays": _arrays(release, arrays, exact), **text})


def _safetensors(release: StoredRelease, exact: bool) -> str:
    data = EXPORTS["safetensors"](release)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata, arrays = header["__metadata__"], _arrays(release, safetensors.load(data), exact)
    return _pretty({"arrays": arrays, "keys": [*metadata], **_text(metadata["release"], exact)})


def _onnx(release: StoredRelease, exact: bool) -> str:
    """The graph with all constants; or why there is none."""
    try:
        model = onnx.load_model_from_string(EXPORTS["onnx"](release))
    except InvalidValueError:
        return "refused\n"
    (stated,) = (each.value for each in model.metadata_props)
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    if (
        not exact and arrays["weights"].ndim > release.weights.ndim
    ):  # those of the first class are 0
        assert not arrays["weights"][:, 0].any()
        arrays["weights"] = arrays["weights"][:, 1]
    del model.metadata_props[:], model.graph.initializer[:]
    constants, text = _arrays(release, arrays, exact), _text(stated, exact)
    return _pretty({"graph": MessageToDict(model), "constants": constants, **text})


def _joblib(release: StoredRelease, questions: Any) -> tuple[Part, Any]:
    """What the pipeline is, and whether it predicts what the release does; what it predicts."""
    pipeline, model = joblib.load(io.BytesIO(EXPORTS["sklearn"](release))), release.model()
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    ours, theirs = (getattr(each, name)(questions) for each in (model, pipeline))
    stated = {
        "steps": [type(step).__name__ for _, step in pipeline.steps],
        "classes": getattr(pipeline, "classes_", np.zeros(0)).tolist(),
        "predicts as the release": bool(np.allclose(ours, theirs, rtol=1e-12, atol=1e-12)),
    }
    return Part(_pretty(stated)), theirs


def write(parts: Mapping[str, Part], folder: Path) -> None:
    """Write parts into a folder, for people to look at."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (folder / f"{name}.txt").write_text(part.text, encoding="utf-8")
