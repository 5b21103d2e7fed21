"""Writes docs/reference/ from the commands, the tables of the configuration and the docstrings."""
