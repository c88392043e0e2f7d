"""What owns a lane: takes, signs, writes ahead, sends, tracks, settles, retires. Runs in a worker."""
