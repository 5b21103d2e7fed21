"""The demo: a stream whose concept turns, and what a private model can make of it."""
