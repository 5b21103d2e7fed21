"""The paper's figures, other methods to compare with, and benchmarks: not part of the product."""
