"""Where a Gate keeps everything: records, persons, ledger and releases, durably."""
