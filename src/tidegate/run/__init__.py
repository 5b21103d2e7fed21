"""Running a plan: the settings of a run, resolved once."""
