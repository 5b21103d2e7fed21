"""Hypothesis for these tests: no deadlines, because a busy machine is not a defect."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
