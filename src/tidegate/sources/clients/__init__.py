"""The clients of brokers: each needs an extra, so it is imported when its source is first read."""
