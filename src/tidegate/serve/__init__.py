"""The service: one gate over HTTP, with tokens, limits and an audit log (extra `serve`)."""
