"""Parts of a screen: each is given its slice of the snapshot and draws it."""
