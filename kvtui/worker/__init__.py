"""The child process that runs the engine: commands in on stdin, records out on stdout."""
