"""``oblong compare``: the protocol, its results, and how they are shown."""
