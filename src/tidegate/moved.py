"""Finds modules by the names that they had before they moved.

Pickled estimators, releases and pipelines import the modules of their classes, so a module that
moves stays importable by its earlier name for as long as such a pickle may exist.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

EARLIER = {
    "data.columns": "features.columns",
    "data.columns.category": "features.columns.category",
    "data.columns.column": "features.columns.column",
    "data.columns.flag": "features.columns.flag",
    "data.columns.number": "features.columns.number",
    "data.columns.table": "features.columns.table",
    "data.columns.text": "features.columns.text",
    "data.columns.time": "features.columns.time",
    "data.columns.unpacking": "features.columns.unpacking",
    "data.columns.vector": "features.columns.vector",
    "data.encoder": "features.encoder",
    "data.encoder.encoder": (
        "features.encoder.frozen_file features.encoder.protocol features.encoder.unit_rows"
    ),
    "data.encoder.onnx_model": (
        "features.encoder.onnx_image features.encoder.onnx_model features.encoder.onnx_text"
    ),
    "data.encoder.token_table": "features.encoder.token_table",
    "data.encoder.tokens": "features.encoder.tokens",
    "data.feature_map": "features.codec features.feature_chain features.feature_map",
    "data.intake": "learn.intake",
    "data.maps.center": "features.center",
    "data.maps.clip": "features.clip",
    "data.maps.columns_map": "features.columns.columns",
    "data.maps.composed": "features.composed",
    "data.maps.encoded": "features.encoded",
    "data.maps.fourier": "features.fourier",
    "data.maps.hashed_text": "features.text",
    "data.maps.intercept": "features.intercept",
    "data.maps.one_record": "features.made_up features.one_record",
    "data.maps.projection": "features.projection",
    "data.maps.scattering": "features.scattering",
    "data.owners": "learn.owners",
    "data.predicted": "learn.labels learn.predicted learn.target",
    "data.records": "learn.packed learn.parts learn.records",
    "data.rows": "features.lattice features.mix features.rows",
    "data.values": "features.arrow_values features.numbers features.spelling",
    "estimators.continual_estimators": "estimators.continual",
    "estimators.fading_estimators": "estimators.fading",
    "estimators.growing_estimators": "estimators.growing",
    "estimators.linear": "estimators.classifier estimators.regressor",
    "estimators.private_estimators": "estimators.private",
    "estimators.sliding_estimators": "estimators.sliding",
    "estimators.summary": "estimators.histogram estimators.mean",
    "estimators.twostream_estimators": "estimators.twostream",
    "learn.exact": "learn.elementary learn.symmetric",
    "learn.feature_summary": "learn.range_advice",
    "learn.learner": "learn.trainer",
    "learn.loss.classification": "learn.loss.margins",
    "learn.measures.estimates": "learn.measures.answers learn.measures.binned_mean",
    "learn.measures.measure": "learn.measures.forms",
    "learn.preparation": "learn.moments",
    "learn.refit": "learn.fold",
    "learn.score_cells": "learn.bins",
    "learn.scores": "learn.step_scores",
    "learn.slot_weights": "learn.persons",
    "privacy.budget": "privacy.amplification privacy.rounding",
    "privacy.noise": "privacy.bits",
    "privacy.shares": "privacy.allocation",
    "release.card": "release.hash_chain",
    "release.verdict": "release.measure_words",
    "run.cluster": "compute.cluster",
    "run.engine": "compute.cuts compute.engine",
    "run.held": "learn.admitted_steps learn.held",
    "run.memory_run": "memory_run run.memory_store",
    "run.step_admission": "learn.step_admission",
    "schedule.doubling": "schedule.binary schedule.blocks schedule.phases",
    "schedule.fit": "schedule.levels schedule.steps",
    "schedule.plan": "plan",
    "schedule.progress": "progress",
    "schedule.protocol": "schedule.registry",
}
"""The earlier names of each module that pickles may know, without `tidegate.`."""

MOVED = {earlier: now for now, names in EARLIER.items() for earlier in names.split()}
"""The earlier name of each module, and where it is now; all without `tidegate.`."""


class Moved(MetaPathFinder, Loader):
    """Gives one module two names; nothing is executed twice."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Recognise a module by its earlier name."""
        del path, target
        package, _, name = fullname.partition(".")
        known = package == "tidegate" and name in MOVED
        return ModuleSpec(fullname, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import it by the name that it has now."""
        found = import_module(f"tidegate.{MOVED[spec.name.partition('.')[2]]}")
        spec.loader_state = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Give it back its own specification, which the import has replaced."""
        if module.__spec__:
            module.__spec__ = module.__spec__.loader_state
