"""Losses, the certified solver and the learners that turn records into private weights."""
