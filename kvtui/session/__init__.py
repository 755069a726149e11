"""Where prediction and measurement meet: the sizing answer, the live state, the summary.

Both front ends print from here and compute nothing themselves.
"""
