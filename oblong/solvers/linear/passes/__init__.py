"""Linear margin problems of rows that are read a block at a time, several times."""
