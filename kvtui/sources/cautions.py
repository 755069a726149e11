"""What a question is answered with besides its numbers: sentences about what was typed."""

from kvtui.sources.lengths import token_count
from kvtui.spec import FullAttention, Model, Workload


def suffix_warnings(context: str | None) -> list[str]:
    """A context typed with K or M is read in powers of 1024, and said to be."""
    text = (context or "").strip()
    if text[-1:].lower() not in ("k", "m"):
        return []
    return [f"Context {text} is read as {token_count('context', text):,} tokens: K is 1024."]


def shape_warnings(model: Model, workload: Workload, tp: int) -> list[str]:
    """A context beyond the trained one, and KV heads that ``tp`` copies or does not divide."""
    warnings = []
    if model.trained_context is not None and workload.longest > model.trained_context:
        warnings.append(
            f"{workload.longest:,} tokens exceed the {model.trained_context:,} "
            f"{model.name} was trained for."
        )
    for group in model.groups:
        if not isinstance(group, FullAttention) or tp == 1:
            continue
        if group.kv_heads < tp:
            warnings.append(
                f"{group.kv_heads} KV heads over tp {tp}: each rank holds a copy of one head, "
                f"{tp / group.kv_heads:g} times the whole in all."
            )
        elif group.kv_heads % tp:
            warnings.append(
                f"{group.kv_heads} KV heads are not divisible by tp {tp}: "
                f"the fullest rank holds {-(-group.kv_heads // tp)}."
            )
    return warnings
