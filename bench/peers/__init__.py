"""Other queues on the same work, each as its users would set it up: one queue per key, one job of it at a time."""
