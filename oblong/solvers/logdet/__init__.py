"""Interior point steps of problems with a log-determinant."""
