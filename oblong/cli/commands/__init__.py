"""One module per subcommand: its parser and what it runs."""
