"""The kernels worth writing, each behind a fallback; none is imported before it is wanted."""
