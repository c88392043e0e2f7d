"""What tells others: event streams and webhooks."""
