"""The Gate: the durable runtime. Records in, releases out, and nothing lost in between."""
