"""Which records of a file can be relied on by whoever computes with them.

A helper process never says what is refused here; a file from anywhere may. Other records only show
what they hold, whatever it is.
"""

from typing import Final

import msgspec

from kvtui.dtypes import element_format
from kvtui.errors import KvtuiError
from kvtui.records import (
    RECORDS_SCHEMA,
    AnyRecord,
    Ended,
    Hello,
    Limit,
    Prefilled,
    RecordingOpened,
    RunAsked,
    Started,
    Steps,
    decode_run,
)

_COUNT_MAX: Final = 2**40


def sound(record: AnyRecord) -> bool:
    """Whether what computes with ``record`` can rely on it; others only show what they hold."""
    if isinstance(record, Steps):
        return (
            1 <= record.first_step <= record.last_step <= _COUNT_MAX
            and 0 <= record.tokens <= _COUNT_MAX
            and record.held_kv_bytes >= 0
        )
    if isinstance(record, Prefilled | Ended):
        return 0 <= record.tokens <= _COUNT_MAX and record.held_kv_bytes >= 0
    if isinstance(record, Limit):
        return record.read_bytes_per_s > 0
    if isinstance(record, Started):
        return 1 <= record.start < record.target <= _COUNT_MAX and record.batch >= 1
    if isinstance(record, RecordingOpened | Hello):
        return record.schema == RECORDS_SCHEMA
    if isinstance(record, RunAsked):
        command = record.command
        widths = [value for shape in command.groups for value in msgspec.structs.astuple(shape)[1:]]
        counts = [command.batch, command.start, command.target, *widths]
        try:
            element_format("dtype", command.dtype)
            decode_run(command)
        except (KvtuiError, ValueError, TypeError):
            return False
        return (
            all(0 <= one <= _COUNT_MAX for one in counts)
            and command.batch >= 1
            and 1 <= command.start < command.target
        )
    return True
