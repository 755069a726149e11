"""A Hugging Face ``config.json`` (or a preset's facts, which have the same fields) as a ``Model``.

Text fields may be nested (``text_config``), while dtype and quantisation sit at the root; a null
is an absent field. What the file does not say exactly becomes a warning on the model, what cannot
be used an error that names field, value and range. Nothing is downloaded and no code of the file's
is run.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kvtui.errors import InputError, SourceError
from kvtui.sources.draft import Draft
from kvtui.sources.facts import CONTEXT_MAX, Facts
from kvtui.sources.families import family, known_types, stateful_field
from kvtui.sources.families.by_list import has_state, interval_only, shared_by_list
from kvtui.sources.formats import kept_blocks, weights_format
from kvtui.sources.nested import decoder_fields
from kvtui.sources.text_file import read_text
from kvtui.spec import Model

_CONTEXT: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
)


def read(path: Path) -> Model:
    """The model that ``path`` describes.

    Raises:
        SourceError: the file is missing, too large, not JSON, or no object.
        InputError: a field is missing or cannot be used.
    """
    text = read_text(path)
    if not text.strip():
        raise SourceError(f"{path} is empty; it must hold the JSON object of a config.json.")
    try:
        facts = json.loads(text)
    except RecursionError:
        raise SourceError(f"{path} is nested too deeply for a config.json.") from None
    except ValueError as error:
        raise SourceError(f"{path} is not JSON: {_one_line(error)}.") from None
    if not isinstance(facts, dict):
        kind = "a list" if isinstance(facts, list) else "a single value"
        raise SourceError(f"{path} holds {kind}; it must hold the JSON object of a config.json.")
    name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
    named = facts.get("name")
    return model(
        {"source": str(path), "confidence": "file", **facts},
        name=named if isinstance(named, str) and named else name,
    )


def model(facts: Mapping[str, object], *, name: str) -> Model:
    """The model that the fields ``facts`` of a config.json describe.

    Raises:
        InputError: a field is missing or cannot be used; names field, value and range.
    """
    fields, defaults, part = decoder_fields(facts)
    read_facts = Facts(fields, defaults)
    if part:
        read_facts.warn(part)
    draft = Draft(read_facts)
    _require_the_least(read_facts)
    _lay_out(draft)
    weights = weights_format(read_facts)
    missing = read_facts.missing_for_weights
    if missing:
        read_facts.warn(
            f"{', '.join(missing)} not in the file: the cache is sized, the weights are unknown."
        )
    _note_what_is_left_out(read_facts)
    return Model(
        name=name,
        groups=draft.groups,
        family=read_facts.text("model_type") or "",
        hidden_size=None if "hidden_size" in missing else read_facts.hidden,
        trained_context=_trained_context(read_facts),
        parameters=kept_blocks(read_facts, draft.parameters),
        weights_format=weights,
        source=_text(facts, "source", "config.json"),
        confidence=_text(facts, "confidence", "file"),
        warnings=tuple(read_facts.warnings),
    )


def _require_the_least(facts: Facts) -> None:
    """Name everything at once that no decoder can be without."""
    least = (
        ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        ("hidden_size", "n_embd", "d_model", "dim", "head_dim", "kv_lora_rank"),
        ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    )
    named = facts.text("model_type")
    if facts.defaults:
        return
    missing = [names[0] for names in least if not facts.has(*names)]
    if len(missing) == len(least) or (missing and not named):
        raise InputError(", ".join(missing), None, "given in a decoder's config.json")


def _trained_context(facts: Facts) -> int | None:
    """Longest context the file says the model reaches, rope scaling applied once.

    With an original length the scaled one is original x factor, which some files already state;
    without one, linear and dynamic scaling multiply the stated length.
    """
    stated = facts.optional(*_CONTEXT, high=CONTEXT_MAX)
    scaling = facts.table("rope_scaling") or facts.table("rope_parameters")
    factor = scaling.get("factor")
    if stated is None or not isinstance(factor, int | float) or not 1 <= factor <= 2**20:
        return stated
    original = scaling.get("original_max_position_embeddings")
    if isinstance(original, int) and original > 0:
        return max(stated, int(original * factor))
    kind = scaling.get("rope_type") or scaling.get("type")
    return int(stated * factor) if kind in ("linear", "dynamic") else stated


def _lay_out(draft: Draft) -> None:
    """Add the layers of the file's family, or of the nearest one for an unknown type."""
    facts = draft.facts
    model_type = facts.text("model_type")
    found = family(model_type)
    if found is None and facts.has("kv_source_layer_ids"):
        shared_by_list(draft)
        return
    if found is None and facts.has("full_attention_interval") and not has_state(draft):
        interval_only(draft)
        return
    if found is None:
        if (field := stateful_field(draft)) is not None:
            raise InputError(
                "model_type",
                model_type or None,
                f"one of {', '.join(known_types())} for a model with {field}",
            )
        nearest = "deepseek_v3" if facts.has("kv_lora_rank") else None
        if nearest is None:
            nearest = "gemma4" if facts.has("global_head_dim") else None
        if nearest is None:
            nearest = "mixtral" if facts.has("num_local_experts", "num_experts") else "llama"
        found = family(nearest)
        assert found is not None
        facts.warn(
            f"model_type {model_type!r} is not known: cache and weights are counted as for a "
            f"{nearest} model with these fields."
            if model_type
            else f"model_type is not in the file: it is read as {nearest}."
        )
    found(draft)


def _note_what_is_left_out(facts: Facts) -> None:
    """Parts of a published model that a plain decode does not hold."""
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
    drafts = facts.optional(*names, low=0)
    if drafts:
        layers = "layer is" if drafts == 1 else "layers are"
        facts.warn(
            f"{drafts} multi-token-prediction {layers} in the checkpoint and not counted: "
            "neither weights nor cache."
        )


def _text(facts: Mapping[str, object], field: str, default: str) -> str:
    value = facts.get(field)
    return value if isinstance(value, str) and value else default


def _one_line(error: ValueError) -> str:
    """The reason without the document in it."""
    return str(error).split("\n")[0][:120].rstrip(".")
