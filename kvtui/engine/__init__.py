"""The real thing: a decode loop on torch that fills caches and counts their bytes itself.

torch is imported here and nowhere else. Nothing here may import ``sizing``, ``roofline``,
``runtimes`` or ``solve``: the engine counts the tensors it holds, so that a prediction standing
beside its figures is a check and not the same formula twice.
"""
