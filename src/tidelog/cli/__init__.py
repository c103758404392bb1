"""The command `tidelog`: one file per command, and the place where a broker gets its real runtime.

A command's module is imported when it is named, and imports what it runs on when it runs; so `--help` answers at once.
"""
