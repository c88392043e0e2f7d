"""What hostile callers, contracts and nodes try, on the real stack. Each test fails when its guard is taken out."""
