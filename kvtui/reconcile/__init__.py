"""What a start-up log's figures mean: which definition and assumption explains each.

``reconciled`` reads a log of vLLM, SGLang, TensorRT-LLM or llama.cpp and sets every figure beside
the rule it comes from, for the model in question; what no rule gives is said to be left over.
Nothing here prints.
"""

from kvtui.reconcile.findings import Finding
from kvtui.reconcile.report import Reconciliation, reconciled

__all__ = ["Finding", "Reconciliation", "reconciled"]
