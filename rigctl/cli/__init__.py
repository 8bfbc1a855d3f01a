"""The command line: verbs, what they print, and their exit codes."""
