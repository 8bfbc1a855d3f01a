"""rig.toml: what the owner wants, read once, each value knowing where it came from."""
