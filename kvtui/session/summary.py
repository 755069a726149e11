"""The last line of a run: prediction beside measurement, in the published keys."""

from kvtui.decode_run import EndReason
from kvtui.records import StepTimes, Summary, WallTimes
from kvtui.session.flags import flags
from kvtui.session.live import Live


def summary(live: Live) -> Summary:
    """The summary of the run in ``live``, whatever state it ended in."""
    ended, started = live.ended, live.started
    reason: EndReason = ended.reason if ended else "lost"
    return Summary(
        predicted_kv_bytes=live.predicted_kv_bytes,
        held_kv_bytes=live.held_kv_bytes,
        capacity_kv_bytes=started.capacity_kv_bytes if started else None,
        steps=live.steps,
        tokens=live.tokens,
        prefill_ms=live.prefilled.prefill_ms if live.prefilled else None,
        step_ms=StepTimes(
            p10=live.step_percentile_ms(10),
            p50=live.step_percentile_ms(50),
            p90=live.step_percentile_ms(90),
            p99=live.step_percentile_ms(99),
        ),
        wall_step_ms=WallTimes(p50=live.wall_step_ms),
        predicted_step_ms=live.predicted_step_ms,
        kv_bytes_per_s=live.kv_rate.percentile(50),
        weight_bytes_per_s=live.weight_bytes_per_s,
        achieved_bytes_per_s=live.achieved_bytes_per_s,
        limit_bytes_per_s=live.limit_bytes_per_s,
        share_of_limit=live.share_of_limit,
        tokens_per_s=live.tokens_per_s,
        link_bytes_per_s=ended.link_bytes_per_s if ended else None,
        flags=[flag.name for flag in flags(live)],
        backend=started.backend if started else None,
        evidence=live.evidence.kernel if live.evidence else None,
        device=live.device.name if live.device else None,
        threads=started.threads if started else None,
        ended=reason,
        sentence=ended.sentence if ended else "The worker never reported an end.",
    )
