"""The mempool under faults: several instances, one store, a node that charges or one that forgets."""
