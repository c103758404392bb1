"""The command `tidelog`: one file per command, and the only place where a real runtime is chosen.

A command's module is imported when it is named, and imports what it runs on when it runs; so `--help` answers at once.
"""
