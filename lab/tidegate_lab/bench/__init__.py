"""Benchmarks: each module prints one table of ratios measured side by side in one run."""
