"""Ground floor: compilation, threads, progress reports."""
