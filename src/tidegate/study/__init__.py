"""Studies: the paper's figures, baselines and drifting streams. The product does not need them."""
