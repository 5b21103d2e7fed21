"""The page at `/` and its files."""
