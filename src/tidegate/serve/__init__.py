"""The service: one Gate over HTTP, with tokens, limits and an audit log (extra `serve`)."""
