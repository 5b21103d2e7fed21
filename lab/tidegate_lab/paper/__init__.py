"""The paper's figures, as published and privately, and the panels that are not in it."""
