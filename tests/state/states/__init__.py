"""States as each released layout has left them: made once, by the version that had the layout."""
