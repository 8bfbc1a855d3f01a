"""The world, one file each: how, never whether."""
