"""Both helpers answer a ping at once, whatever else they do."""

import asyncio

import pytest

from kvtui.client.local import start_helper
from kvtui.records import Hello, HostReading, PingCommand, Pong, Role


@pytest.mark.parametrize("role", ["worker", "monitor"])
async def test_a_ping_is_answered_with_its_number(role: Role) -> None:
    """A pong for each ping, in order; a monitor makes no reading for it."""
    source = await start_helper(role)
    stream = source.records()
    assert isinstance(await asyncio.wait_for(anext(stream), 30), Hello)
    for number in range(1, 21):
        assert await source.send(PingCommand(ping=number))
    answered, readings = [], 0
    async with asyncio.timeout(30):
        async for record in stream:
            readings += isinstance(record, HostReading)
            if isinstance(record, Pong):
                answered.append(record.ping)
                if len(answered) == 20:
                    break
    assert answered == [*range(1, 21)]
    assert readings < 10
    await source.stop()
