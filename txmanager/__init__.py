"""txmanager: one life per intent, one order per signing key."""
