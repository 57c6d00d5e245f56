"""Ground floor: compilation, threads, progress, whole files, rollback, class weights, quoting."""
