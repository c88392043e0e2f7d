"""Where one RESP message ends: enough of the protocol to know which reply belongs to which command."""

from __future__ import annotations

_LINE = b"+-:_#,("
_BULK = b"$=!"
_COUNTED = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}


def message_end(buffer: bytes | bytearray, start: int = 0) -> int | None:
    """The index just behind the message that begins at `start`, or None while it is incomplete."""
    waiting = 1
    at = start
    while waiting:
        line = buffer.find(b"\r\n", at)
        if line < 0:
            return None
        kind, after = buffer[at], line + 2
        waiting -= 1
        if kind in _BULK:
            length = int(buffer[at + 1 : line])
            after = after + length + 2 if length >= 0 else after
            if len(buffer) < after:
                return None
        elif kind in _COUNTED:
            waiting += max(int(buffer[at + 1 : line]), 0) * _COUNTED[kind]
            # An attribute only precedes the message it belongs to.
            waiting += kind == ord("|")
        elif kind not in _LINE:
            # An inline command: one line of words.
            pass
        at = after
    return at


def command_words(message: bytes | bytearray) -> list[bytes]:
    """The words of a command as a client sends it."""
    if message[:1] != b"*":
        return bytes(message).split()
    words: list[bytes] = []
    at = message.find(b"\r\n") + 2
    while at < len(message):
        line = message.find(b"\r\n", at)
        length = int(message[at + 1 : line])
        words.append(bytes(message[line + 2 : line + 2 + length]))
        at = line + 2 + length + 2
    return words
