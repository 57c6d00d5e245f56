"""What the commands share: options, tables, progress, errors and HTML."""
