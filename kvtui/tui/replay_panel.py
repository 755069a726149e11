"""The live panel of a replay: where there is no run yet, it says so and offers none."""

from rich.text import Text

from kvtui.tui.palette import DIM
from kvtui.tui.panels.base import wrapped
from kvtui.tui.panels.live import LivePanel


class ReplayLivePanel(LivePanel):
    """Draws the run of the moment that is shown."""

    def _preview(self, width: int, height: int) -> list[Text]:  # noqa: ARG002  # one short line
        return wrapped("No run at this moment of the recording.", width, DIM)
