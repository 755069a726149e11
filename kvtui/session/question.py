"""The question on screen and its last good answer.

Bad input never blanks the screen: the answer stays as it was, and the error says which field is
wrong and why.
"""

from dataclasses import dataclass, field, replace

from kvtui.errors import KvtuiError
from kvtui.session.answer import Answer, compose
from kvtui.sources.request import DetectDevice, Request, scenario
from kvtui.spec import Scenario


@dataclass(slots=True)
class Question:
    """Typed fields in, an answer or a reason out."""

    detect: DetectDevice | None = None
    request: Request = field(default_factory=Request)
    scenario: Scenario | None = None
    answer: Answer | None = None
    """Of the last request that could be answered."""
    error: KvtuiError | None = None
    """Why the present request cannot be; None when ``answer`` is its answer."""
    revision: int = 0
    host_bytes_per_s: float | None = None
    """Read limit measured on this machine; stands in where the host's bandwidth is asked for."""

    def measured(self, bytes_per_s: float) -> None:
        """A limit was measured here: answer anew where it is what was missing."""
        if bytes_per_s == self.host_bytes_per_s:
            return
        self.host_bytes_per_s = bytes_per_s
        if self.scenario is not None and self.scenario.device.host:
            self.ask(self.request)

    def ask(self, request: Request) -> None:
        """Answer ``request``, or keep the last answer and the reason."""
        self.request = request
        self.revision += 1
        try:
            asked = self._with_measured(scenario(request, detect=self.detect))
            self.answer, self.scenario, self.error = compose(asked), asked, None
        except KvtuiError as error:
            self.error = error

    def _with_measured(self, asked: Scenario) -> Scenario:
        device = asked.device
        known = self.host_bytes_per_s
        if not device.host or device.bandwidth_bytes_per_s is not None or known is None:
            return asked
        source = f"{device.source}; bandwidth: read limit measured by the last run"
        return replace(asked, device=replace(device, bandwidth_bytes_per_s=known, source=source))
