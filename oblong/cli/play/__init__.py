"""``oblong play``: a local page on which points are moved and boundaries follow."""
