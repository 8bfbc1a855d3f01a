"""The panel: sees snapshots and a client, never the machinery."""
