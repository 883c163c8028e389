"""The commands of the command line, a function each."""
