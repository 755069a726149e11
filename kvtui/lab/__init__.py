"""The experiments of the two lessons, run here: figure beside reported figure."""

import os

# Read when torch is loaded: its profiler tells stderr of its own start, and of each block it
# sees released that it did not see taken.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
