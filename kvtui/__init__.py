"""kvtui: the terminal instrument for the KV cache of large language models.

The package root holds the version and nothing else: importing any submodule runs this file,
so an import here would be paid by every command.
"""

__version__ = "0.1.0"
