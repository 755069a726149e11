"""Decoders with routed experts over plain attention."""

from kvtui.sources.draft import Draft
from kvtui.sources.families.decoder import Style, decoder, projections
from kvtui.sources.windows import FULL, SLIDING, attention_layer, layer_types

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""Names of the number of routed experts."""
ACTIVE = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
)
"""Names of the number of experts a token passes through."""
EXPERT_INNER = ("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
"""Names of an expert's inner width."""


def expert_layer(draft: Draft, layer: int) -> None:  # noqa: ARG001 - every layer alike
    """Routed experts alone."""
    facts = draft.facts
    draft.experts(facts.count(*EXPERTS), facts.count(*ACTIVE), facts.count(*EXPERT_INNER))


def shared_experts(draft: Draft) -> None:
    """Experts every token passes through, as one MLP of ``n_shared_experts`` times the width."""
    facts = draft.facts
    number = facts.count("n_shared_experts", "num_shared_experts", default=0, low=0)
    if number:
        draft.mlp(number * facts.count(*EXPERT_INNER), name="shared expert")


def dense_then_experts(draft: Draft, layer: int) -> None:
    """DeepSeek's split: ``first_k_dense_replace`` dense layers, then experts and shared ones."""
    facts = draft.facts
    first = facts.count("first_k_dense_replace", default=0, low=0)
    every = facts.count("moe_layer_freq", default=1)
    if layer < first or layer % every:
        draft.mlp(facts.inner)
        return
    expert_layer(draft, layer)
    shared_experts(draft)


def qwen_experts(draft: Draft, layer: int) -> None:
    """Qwen's split: dense in ``mlp_only_layers`` and off the sparse step; a gated shared expert."""
    facts = draft.facts
    dense = facts.counts("mlp_only_layers") or []
    step = facts.count("decoder_sparse_step", default=1)
    number = facts.count(*EXPERTS, default=0, low=0)
    if layer in dense or not number or (layer + 1) % step:
        draft.mlp(facts.inner)
        return
    expert_layer(draft, layer)
    shared = facts.count("shared_expert_intermediate_size", default=0, low=0)
    if shared:
        draft.mlp(shared, name="shared expert")
        draft.weight("shared expert gate", "router", 1, facts.hidden, sharded=False)


def mixtral(draft: Draft) -> None:
    """Mixtral: experts in every layer."""
    decoder(draft, Style(qkv_bias=False, o_bias=False, window_pattern=1, mlp=expert_layer))


def qwen2_moe(draft: Draft) -> None:
    """Qwen 1.5 and 2 MoE."""
    decoder(draft, Style(qkv_bias=True, o_bias=False, mlp=qwen_experts))


def qwen3_moe(draft: Draft) -> None:
    """Qwen 3 MoE: no shared expert."""
    decoder(draft, Style(qk_norm="head", mlp=qwen_experts))


def glm4_moe(draft: Draft) -> None:
    """GLM-4.5 and 4.6: biased Q, K and V; norms on Q and K where ``use_qk_norm`` says so."""
    normed = draft.facts.flag("use_qk_norm")
    decoder(
        draft,
        Style(o_bias=False, qk_norm="head" if normed else "none", mlp=dense_then_experts),
    )


def minimax_m2(draft: Draft) -> None:
    """MiniMax-M2: norms over all heads on Q and K."""
    decoder(draft, Style(qkv_bias=False, o_bias=False, qk_norm="all heads", mlp=expert_layer))


def gpt_oss(draft: Draft) -> None:
    """gpt-oss: biases everywhere, one sink logit a head (no cache), every second layer slides."""

    def experts(draft: Draft, layer: int) -> None:  # noqa: ARG001 - every layer alike
        facts = draft.facts
        draft.experts(
            facts.count(*EXPERTS),
            facts.count(*ACTIVE),
            facts.inner,
            bias=True,
            router_bias=True,
        )

    decoder(draft, Style(bias_default=True, sinks=True, window_pattern=2, mlp=experts))


def mimo_v2_flash(draft: Draft) -> None:
    """MiMo-V2-Flash: K wider than V, sliding layers with their own heads and sink logits."""
    facts = draft.facts
    layers = facts.layers
    pattern = facts.per_layer(["hybrid_layer_pattern"], layers)
    default = [SLIDING if one else FULL for one in pattern] if pattern else [FULL] * layers
    sparse = facts.per_layer(["moe_layer_freq"], layers) or [1] * layers
    draft.embedding()
    for layer, kind in enumerate(layer_types(facts, known=(FULL, SLIDING), default=default)):
        own = "swa_" if kind == SLIDING else ""
        q_heads = facts.count(f"{own}num_attention_heads", "num_attention_heads")
        kv_heads = facts.count(f"{own}num_key_value_heads", "num_key_value_heads")
        k_width = facts.count(f"{own}head_dim", "head_dim")
        v_width = facts.count(f"{own}v_head_dim", "v_head_dim", default=k_width)
        draft.cache(
            attention_layer(
                facts, kind, q_heads=q_heads, kv_heads=kv_heads, k_width=k_width, v_width=v_width
            )
        )
        bias = facts.flag("attention_bias")
        projections(
            draft,
            q_heads=q_heads,
            kv_heads=kv_heads,
            k_width=k_width,
            v_width=v_width,
            qkv_bias=bias,
        )
        if kind == SLIDING and facts.flag("add_swa_attention_sink_bias", default=True):
            draft.weight("sinks", "attention", q_heads)
        if sparse[layer]:
            expert_layer(draft, layer)
            shared_experts(draft)
        else:
            draft.mlp(facts.inner)
        draft.norm("layer norm", facts.hidden, copies=2)
    draft.norm("final norm", facts.hidden)
    draft.head(tied=False)
