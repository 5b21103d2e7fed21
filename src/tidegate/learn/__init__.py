"""Losses, objectives, the certified solver, the learners and what their models are worth."""
