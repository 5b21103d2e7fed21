"""Studies: the paper's figures, baselines and drifting streams. Nothing of the product needs it."""
