"""Tidegate releases a fresh private model at every step of a stream, under one fixed bound."""
