"""Why a helper over ssh is gone: ssh's own failure, what is missing there, or the helper's end.

Pure text. ssh exits with the far command's status, or with 255 for a failure of its own, which it
explains on stderr among whatever the far side says there. The phrases are those of OpenSSH's
client (``ssh.c``, ``sshconnect.c``, ``sshconnect2.c``, ``clientloop.c``, ``packet.c``).
"""

import re
from collections.abc import Sequence
from typing import Final

from kvtui import __version__
from kvtui.client.causes import last_words, why_gone
from kvtui.records import Role

_OWN_FAILURE: Final = 255
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127
_USAGE: Final = 2
_KEPT: Final = "What was measured until then is kept."

_REFUSALS: Final = (
    (
        r"Could not resolve hostname",
        "{host} is not a name that ssh can resolve: check its spelling and ~/.ssh/config.",
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "The host key of {host} has changed: find out why, then ssh-keygen -R {host}.",
    ),
    (
        r"Host key verification failed|host key is known for .* and you have requested strict",
        "The host key of {host} is not known: run ssh {host} once by hand and compare it.",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "{host} does not let this user in without a password: ssh-copy-id {host}, or ssh-add.",
    ),
    (
        r"Connection refused",
        "Nothing answers for ssh on {host}: the machine is there, but no sshd at that port.",
    ),
    (
        r"Connection timed out|Operation timed out|Connection to \S+ port \d+ timed out",
        "{host} does not answer: check that it is up and can be reached from here.",
    ),
    (
        r"No route to host|Network is unreachable",
        "There is no way to {host} in the network from here.",
    ),
    (
        r"Bad configuration option|Bad owner or permissions|terminating, \d+ bad configuration",
        "ssh cannot use its configuration: {line}",
    ),
)
_LOST: Final = re.compile(
    r"Timeout, server|Connection to .* closed|closed by remote host|Connection reset"
    r"|[Bb]roken pipe|Read from remote host|Connection closed by|kex_exchange_identification"
    r"|message authentication code incorrect|Bad packet length|Connection timed out"
)
_NO_KVTUI: Final = re.compile(r"No module named '?(kvtui[\w.]*)'?")
_SPOKEN_BY_SSH: Final = re.compile(
    r"^(ssh: |kex_|client_loop: |Connection |Timeout, |Read from |Host key |Bad |packet_|.*@.*: )"
)


def why_no_ssh(error: OSError) -> str:
    """Why no ssh could be started here."""
    if isinstance(error, FileNotFoundError):
        return "There is no ssh on this machine: --host needs the OpenSSH client."
    return f"ssh cannot be started: {error.strerror or error}."


def why_far_gone(
    role: Role,
    host: str,
    python: str,
    status: int | None,
    *,
    own: str,
    lines: Sequence[str],
    greeted: bool,
) -> str:
    """Why the helper on ``host`` ended unasked.

    Args:
        role: which helper.
        host: the name ssh was given.
        python: the interpreter asked for there.
        status: exit status of the local ssh; negative is a signal here, None means no end.
        own: what the helper said about itself last, or "".
        lines: the last lines on stderr, ssh's and the far side's.
        greeted: the helper had said its hello.
    """
    if status is not None and status < 0:
        return why_gone(f"ssh to {host}", status, "")
    if status == _OWN_FAILURE and not own:
        return _why_no_link(host, lines, greeted=greeted, role=role)
    if not greeted and (missing := _what_is_missing(host, python, status, lines)):
        return missing
    return why_gone(f"{role} on {host}", status, own or last_words(lines))


def _why_no_link(host: str, lines: Sequence[str], *, greeted: bool, role: Role) -> str:
    if not greeted:
        for phrase, sentence in _REFUSALS:
            for line in reversed(lines):
                if re.search(phrase, line):
                    return sentence.format(host=host, line=line)
    spoken = [line for line in lines if _SPOKEN_BY_SSH.match(line) or _LOST.search(line)]
    words = f": {_closed(spoken[-1].strip())}" if spoken else "."
    if not greeted:
        return f"ssh cannot reach {host}{words}"
    if not spoken:
        return (
            f"The {role} on {host} was killed by a signal, often of the kernel's out-of-memory "
            f"killer, or the link broke. {_KEPT}"
        )
    return f"The link to {host} was lost{words} {_KEPT}"


def _what_is_missing(
    host: str, python: str, status: int | None, lines: Sequence[str]
) -> str | None:
    """What to install or name differently on the far side."""
    text = "\n".join(lines)
    another = "name another with --host-python PATH"
    if status == _NOT_FOUND:
        return f"{host} has no {python}: install Python 3.11 or newer there, or {another}."
    if status == _NOT_EXECUTABLE:
        return f"{python} on {host} cannot be executed: {another}."
    if _NO_KVTUI.search(text):
        return (
            f"The {python} on {host} has no kvtui: install kvtui {__version__} into it, "
            f"or {another}."
        )
    if status == _USAGE and "-P" in text:
        return (
            f"The {python} on {host} is older than 3.11: install Python 3.11 or newer and "
            f"kvtui {__version__} there, or {another}."
        )
    return None


def _closed(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."
