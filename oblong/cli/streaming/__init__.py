"""``oblong stream``: progressive validation of an online learner over a file."""
