"""Running a plan: configuration, settings, the order of a step, and engines."""
