"""``oblong bench``: classifiers timed by turns."""
