"""Many margin problems over one kernel matrix."""
