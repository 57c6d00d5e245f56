"""The centre of mass of the version space."""
