"""What looks after lanes from outside: sweeper, monitor, top-ups, replay. Signs nothing."""
