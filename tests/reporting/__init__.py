"""What a run says about itself: the servers it had, the time it took, and what it did not do."""
