"""Consumer groups: classic and KIP-848, and their committed offsets, in `__consumer_offsets`."""
