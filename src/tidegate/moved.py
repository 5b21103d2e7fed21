"""Finds modules by the names that they had before they moved.

Pickled estimators, releases and pipelines import the modules of their classes, so a module that
moves stays importable by its earlier name for as long as such a pickle may exist.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "compute.cluster": "run.cluster",
    "compute.cuts": "run.engine",
    "compute.engine": "run.engine",
    "data.arrow_values": "data.values",
    "data.columns.columns": "data.maps.columns_map",
    "data.encoder.frozen_file": "data.encoder.encoder",
    "data.encoder.onnx_image": "data.encoder.onnx_model",
    "data.encoder.onnx_text": "data.encoder.onnx_model",
    "data.encoder.unit_rows": "data.encoder.encoder",
    "data.labels": "data.predicted",
    "data.maps.codec": "data.feature_map",
    "data.maps.feature_chain": "data.feature_map",
    "data.maps.feature_map": "data.feature_map",
    "data.maps.lattice": "data.rows",
    "data.maps.made_up": "data.maps.one_record",
    "data.maps.mix": "data.rows",
    "data.numbers": "data.values",
    "data.packed": "data.records",
    "data.parts": "data.records",
    "data.spelling": "data.values",
    "data.target": "data.predicted",
    "estimators.classifier": "estimators.linear",
    "estimators.continual": "estimators.continual_estimators",
    "estimators.fading": "estimators.fading_estimators",
    "estimators.growing": "estimators.growing_estimators",
    "estimators.histogram": "estimators.summary",
    "estimators.histogram_estimator": "estimators.summary",
    "estimators.mean": "estimators.summary",
    "estimators.mean_estimator": "estimators.summary",
    "estimators.private": "estimators.private_estimators",
    "estimators.regressor": "estimators.linear",
    "estimators.sliding": "estimators.sliding_estimators",
    "estimators.twostream": "estimators.twostream_estimators",
    "features.arrow_values": "data.values",
    "features.center": "data.maps.center",
    "features.clip": "data.maps.clip",
    "features.codec": "data.feature_map",
    "features.columns": "data.columns",
    "features.columns.category": "data.columns.category",
    "features.columns.column": "data.columns.column",
    "features.columns.columns": "data.maps.columns_map",
    "features.columns.flag": "data.columns.flag",
    "features.columns.number": "data.columns.number",
    "features.columns.table": "data.columns.table",
    "features.columns.text": "data.columns.text",
    "features.columns.time": "data.columns.time",
    "features.columns.unpacking": "data.columns.unpacking",
    "features.columns.vector": "data.columns.vector",
    "features.composed": "data.maps.composed",
    "features.encoded": "data.maps.encoded",
    "features.encoder": "data.encoder",
    "features.encoder.frozen_file": "data.encoder.encoder",
    "features.encoder.onnx_image": "data.encoder.onnx_model",
    "features.encoder.onnx_model": "data.encoder.onnx_model",
    "features.encoder.onnx_text": "data.encoder.onnx_model",
    "features.encoder.protocol": "data.encoder.encoder",
    "features.encoder.token_table": "data.encoder.token_table",
    "features.encoder.tokens": "data.encoder.tokens",
    "features.encoder.unit_rows": "data.encoder.encoder",
    "features.feature_chain": "data.feature_map",
    "features.feature_map": "data.feature_map",
    "features.fourier": "data.maps.fourier",
    "features.intercept": "data.maps.intercept",
    "features.lattice": "data.rows",
    "features.made_up": "data.maps.one_record",
    "features.mix": "data.rows",
    "features.numbers": "data.values",
    "features.one_record": "data.maps.one_record",
    "features.projection": "data.maps.projection",
    "features.rows": "data.rows",
    "features.scattering": "data.maps.scattering",
    "features.spelling": "data.values",
    "features.text": "data.maps.hashed_text",
    "learn.admitted_steps": "run.held",
    "learn.bins": "learn.score_cells",
    "learn.elementary": "learn.exact",
    "learn.fold": "learn.refit",
    "learn.held": "run.held",
    "learn.intake": "data.intake",
    "learn.labels": "data.predicted",
    "learn.loss.margins": "learn.loss.classification",
    "learn.measures.answers": "learn.measures.estimates",
    "learn.measures.binned_mean": "learn.measures.estimates",
    "learn.measures.forms": "learn.measures.measure",
    "learn.moments": "learn.preparation",
    "learn.owners": "data.owners",
    "learn.packed": "data.records",
    "learn.parts": "data.records",
    "learn.persons": "learn.slot_weights",
    "learn.predicted": "data.predicted",
    "learn.range_advice": "learn.feature_summary",
    "learn.records": "data.records",
    "learn.step_admission": "run.step_admission",
    "learn.step_scores": "learn.scores",
    "learn.symmetric": "learn.exact",
    "learn.target": "data.predicted",
    "learn.trainer": "learn.learner",
    "memory_run": "run.memory_run",
    "plan": "schedule.plan",
    "privacy.allocation": "privacy.shares",
    "privacy.amplification": "privacy.budget",
    "privacy.bits": "privacy.noise",
    "privacy.rounding": "privacy.budget",
    "progress": "schedule.progress",
    "release.hash_chain": "release.card",
    "release.measure_words": "release.verdict",
    "run.admitted_steps": "run.held",
    "run.config.column_table": "run.config.kind_tables",
    "run.config.difference": "run.config.texts",
    "run.config.feature_table": "run.config.kind_tables",
    "run.config.learner_table": "run.config.kind_tables",
    "run.config.locations": "run.config.tables",
    "run.config.measure_tables": "run.config.tables",
    "run.config.person_table": "run.config.tables",
    "run.config.schedule_table": "run.config.kind_tables",
    "run.config.skeleton": "run.config.example",
    "run.config.source_tables": "run.config.kind_tables",
    "run.cuts": "run.engine",
    "run.memory_store": "run.memory_run",
    "schedule.binary": "schedule.doubling",
    "schedule.blocks": "schedule.doubling",
    "schedule.levels": "schedule.fit",
    "schedule.phases": "schedule.doubling",
    "schedule.registry": "schedule.protocol",
    "schedule.steps": "schedule.fit",
}
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
