"""The question on screen and its last good answer.

Bad input never blanks the screen: the answer stays as it was, and the error says which field is
wrong and why.
"""

from dataclasses import dataclass, field

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

    def ask(self, request: Request) -> None:
        """Answer ``request``, or keep the last answer and the reason."""
        self.request = request
        self.revision += 1
        try:
            asked = scenario(request, detect=self.detect)
            self.answer, self.scenario, self.error = compose(asked), asked, None
        except KvtuiError as error:
            self.error = error
