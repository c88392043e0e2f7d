"""The gateway's work: take transactions in, send them in order, follow them until the chain decided."""
