"""One site: records, ledger, identity; what answers requests."""
