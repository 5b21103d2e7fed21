"""Tests of runs: their settings, their order and what they store."""
