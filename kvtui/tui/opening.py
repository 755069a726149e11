"""What the screen starts on, and which run ``r`` starts: the question as it stands.

Without a shape from outside the question is the demonstration on this machine, and its run ends
by the clock. Nothing is started here.
"""

from collections.abc import Mapping
from dataclasses import replace

from kvtui.decode_run import DecodeRun
from kvtui.session.question import Question
from kvtui.session.runs import DEMONSTRATION, DEMONSTRATION_SECONDS, RunOptions, decode_run
from kvtui.sources.request import DetectDevice, Request
from kvtui.tui.fields import Form


class Asked:
    """The form on screen, its answer, and the run it stands for."""

    def __init__(
        self, request: Request, options: RunOptions, detect: DetectDevice | None = None
    ) -> None:
        """Ask ``request``; an empty one asks for the demonstration."""
        self._options = options
        self._chosen = bool(request.given())
        self._before: list[tuple[Request, dict[str, str]]] = []
        """The form before each move made by one key."""
        demonstration = Request(workload=DEMONSTRATION, gpu="host")
        self.form = Form(base=request if self._chosen else demonstration)
        self.question = Question(detect=detect)
        self.question.ask(self.form.request())

    def again(self) -> None:
        """Answer what was typed; from now on the run is the user's own."""
        self._chosen = True
        self.question.ask(self.form.request())

    def anew(self, request: Request) -> None:
        """Answer another question: nothing that was typed remains."""
        self.form.base, self.form.typed = request, {}
        self.again()

    def move(self, fields: Mapping[str, str]) -> None:
        """Type ``fields`` over what stands there, and remember what did."""
        self._before.append((self.form.base, dict(self.form.typed)))
        for name, text in fields.items():
            self.form.set(name, text)

    def undo(self) -> bool:
        """Take the last move back; False where there is none."""
        if not self._before:
            return False
        self.form.base, self.form.typed = self._before.pop()
        return True

    def run(self) -> DecodeRun:
        """The run of the question on screen.

        Raises:
            KvtuiError: it cannot be answered, or the engine cannot run what sizing can answer.
        """
        if self.question.error is not None:
            raise self.question.error
        assert self.question.scenario is not None
        options = self._options
        if not self._chosen and options.time_limit_s is None:
            options = replace(options, time_limit_s=DEMONSTRATION_SECONDS)
        return decode_run(self.question.scenario, options)
