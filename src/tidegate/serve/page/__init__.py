"""The page at `/`, and the files that it is made of."""
