"""Records in the log: everything that happens once, nothing that comes at a rate."""

from typing import Final

from kvtui.log import LOG
from kvtui.records import AnyRecord, EngineMemory, GpuReading, HostReading, LinkReading, Steps

_AT_A_RATE: Final = (Steps, EngineMemory, GpuReading, HostReading, LinkReading)


def log_record(record: AnyRecord) -> None:
    """Write ``record`` to the log, if there is one and it belongs there."""
    if not isinstance(record, _AT_A_RATE):
        LOG.info("%s", record)
