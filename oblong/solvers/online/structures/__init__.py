"""What the structures of a covariance do for one example: variance, and update."""
