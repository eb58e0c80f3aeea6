# SPDX-License-Identifier: MIT OR Apache-2.0
"""libisolator from Python, to supervise and to read; a loop with a deadline is written in another language.

Declarations come from isolator.h itself, through cffi (package python3-cffi): nothing is compiled. The header is looked for beside this
file, in the source tree and in ../include of a prefix; the library by its path in the variable LIBISOLATOR, beside this file, or by the
system.

    with isolator.Reader(pid) as reader:
        for cycle in reader.poll():
            print(cycle.number, cycle.latency_ns, cycle.execution_ns)
"""

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple, Optional

from cffi import FFI

__all__ = [
    "Cycle", "Ended", "Error", "Full", "Reader", "Receiver", "Ring", "Sender", "Status", "statistics", "status", "version",
]


def _header() -> str:
    here = Path(__file__).resolve().parent
    places = [here, here.parent / "include"] + [folder / "include" for folder in here.parents]
    for place in places:
        if (place / "isolator.h").is_file():
            return (place / "isolator.h").read_text(encoding="utf-8")
    raise ImportError("cannot use libisolator: isolator.h is neither beside isolator.py nor in a prefix; run make install-lib")


def _library() -> str:
    beside = Path(__file__).resolve().with_name("libisolator.so.1")
    return os.environ.get("LIBISOLATOR", str(beside) if beside.is_file() else beside.name)


def _declarations(header: str) -> str:
    """What cffi takes of the header: no comments, no conditions, no includes, no linkage."""
    header = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.S)
    header = re.sub(r"#ifdef __cplusplus.*?#endif", "", header, flags=re.S)
    return re.sub(r"^#(?!define \w+ \d).*$", "", header, flags=re.M)


_ffi = FFI()
_ffi.cdef(_declarations(_header()))
try:
    _lib = _ffi.dlopen(_library())
except OSError as error:
    raise ImportError(f"cannot load libisolator: {error}; run make install-lib, or give its path in LIBISOLATOR") from error


class Error(OSError):
    """A call that failed: errno, and what failed, on what, why and what to do."""


class Ended(Exception):
    """The loop, or the other end of a ring, has ended, and all of it was read."""


class Full(Exception):
    """The ring has no room for another message: its receiver has to take some first."""


def _text(string) -> str:
    return _ffi.string(string).decode("utf-8", "replace")


def _checked(result: int, *, kept: bool = True) -> int:
    """The result, or the error that it is; calls that are quick keep no text (`kept`)."""
    if result < 0:
        raise Error(-result, _text(_lib.isolator_last_error() if kept else _lib.isolator_strerror(result)))
    return result


def version() -> str:
    """The library's version."""
    return _text(_lib.isolator_version())


class Status(NamedTuple):
    """How a CPU stands."""

    cpu: int
    owner: Optional[int]  #: the owner's thread, where the caller may see it
    isolated: bool
    max_defer_ms: int  #: the longest time that deferred work waits
    ended: Optional[str]  #: why the last isolation ended


def status(cpu: int) -> Status:
    """How `cpu` stands; raises Error with ENOSYS where the kernel has no isolator."""
    found = _ffi.new("struct isolator_cpu_status *")
    _checked(_lib.isolator_cpu_status(cpu, found))
    ended = _text(_lib.isolator_reason_text(found.ended)) if found.ended else None
    return Status(found.cpu, found.owner or None, bool(found.isolated), found.max_defer_ms, ended)


def statistics(cpu: int) -> dict:
    """The isolator's counters of `cpu` since boot, by name; raises Error with ENOSYS where the kernel has no isolator."""
    found = {}
    each = _ffi.callback(
        "void(const char *, uint64_t, void *)", lambda name, value, _data: found.__setitem__(_text(name), value)
    )
    _checked(_lib.isolator_cpu_statistics(cpu, each, _ffi.NULL))
    return found


class _Handle:
    """Something of the library's that is closed: at the end of a with statement, by close(), or with the object."""

    _what = "it"

    def __init__(self, handle, free):
        self._handle = _ffi.gc(handle, free)

    def close(self) -> None:
        """Gives it back."""
        if self._handle is not None:
            _ffi.release(self._handle)
            self._handle = None

    def _open(self):
        if self._handle is None:
            raise ValueError(f"the {self._what} is closed; make a new one")
        return self._handle

    def __enter__(self):
        return self

    def __exit__(self, *_what) -> None:
        self.close()


class Ring(_Handle):
    """Messages from one sender to one receiver, in this process or others: pass fileno() to them (socket.send_fds)."""

    _what = "ring"

    def __init__(self, slots: int = 64, size: int = 56, fd: Optional[int] = None):
        """A new ring of `slots` messages (a power of two) of up to `size` bytes, or the one whose descriptor is `fd`."""
        ring = _ffi.new("struct isolator_ring **")
        made = _lib.isolator_ring_create(slots, size, ring) if fd is None else _lib.isolator_ring_attach(fd, ring)
        _checked(made)
        super().__init__(ring[0], _lib.isolator_ring_free)

    def fileno(self) -> int:
        """The ring's descriptor."""
        return _checked(_lib.isolator_ring_fd(self._open()))

    def sender(self) -> "Sender":
        """The end that posts; raises Error with EBUSY where some process has it."""
        end = _ffi.new("struct isolator_sender **")
        _checked(_lib.isolator_sender_open(self._open(), end))
        return Sender(end[0], _lib.isolator_sender_close)

    def receiver(self) -> "Receiver":
        """The end that takes; raises Error with EBUSY where some process has it."""
        end = _ffi.new("struct isolator_receiver **")
        _checked(_lib.isolator_receiver_open(self._open(), end))
        return Receiver(end[0], _lib.isolator_receiver_close)


class Sender(_Handle):
    """The end that posts; for one thread."""

    _what = "sender"

    def post(self, message: bytes) -> None:
        """Posts a message, and wakes a receiver that waits. Never waits itself: raises Full, or Ended where the receiver has closed."""
        result = _lib.isolator_sender_post_and_wake(self._open(), message, len(message))
        if result == -errno.EAGAIN:
            raise Full("the ring is full")
        if result == -errno.EPIPE:
            raise Ended("the receiver has closed")
        _checked(result, kept=False)

    @property
    def other_lives(self) -> bool:
        """Whether some process has the end that takes."""
        return bool(_checked(_lib.isolator_sender_has_receiver(self._open())))


class Receiver(_Handle):
    """The end that takes; for one thread."""

    _what = "receiver"

    def poll(self, most: int = 64) -> list:
        """The messages that wait, at most `most`; never waits. Raises Ended where the sender has closed and all was taken."""
        messages: list = []
        each = _ffi.callback(
            "void(const void *, size_t, void *)",
            lambda message, size, _data: messages.append(bytes(_ffi.buffer(message, size))),
        )
        result = _lib.isolator_receiver_poll(self._open(), most, each, _ffi.NULL)
        if result == -errno.EPIPE:
            raise Ended("the sender has closed, and all was taken")
        _checked(result, kept=False)
        return messages

    def wait(self, seconds: float) -> bool:
        """Sleeps until a message waits, or so long; whether one waits."""
        return bool(_checked(_lib.isolator_receiver_wait(self._open(), int(seconds * 1e9))))

    @property
    def other_lives(self) -> bool:
        """Whether some process has the end that posts."""
        return bool(_checked(_lib.isolator_receiver_has_sender(self._open())))


class Cycle(NamedTuple):
    """A cycle of a loop; times are nanoseconds of CLOCK_MONOTONIC (time.monotonic_ns)."""

    number: int
    due_ns: int
    began_ns: int
    ended_ns: int
    marks_ns: tuple  #: as many as the cycle had

    @property
    def latency_ns(self) -> int:
        """How late it began."""
        return max(self.began_ns - self.due_ns, 0)

    @property
    def execution_ns(self) -> int:
        """How long it took."""
        return self.ended_ns - self.began_ns


class Reader(_Handle):
    """Reads the loop of a process; one reader at a time."""

    _what = "reader"

    def __init__(self, process: int, name: Optional[str] = None):
        handle = _ffi.new("struct isolator_reader **")
        wanted = _ffi.NULL if name is None else _ffi.new("char[]", name.encode())
        _checked(_lib.isolator_reader_attach(process, wanted, handle))
        super().__init__(handle[0], _lib.isolator_reader_close)
        self._cycles: list = []
        self._each = _ffi.callback("void(const struct isolator_cycle *, void *)", self._take)

    def _take(self, cycle, _data) -> None:
        marks = tuple(at for at in cycle.marks_ns if at)
        self._cycles.append(Cycle(cycle.number, cycle.due_ns, cycle.began_ns, cycle.ended_ns, marks))

    def poll(self) -> list:
        """The cycles that have come; never waits. Raises Ended once the loop has ended."""
        self._cycles = []
        result = _lib.isolator_reader_poll(self._open(), self._each, _ffi.NULL)
        if result == -errno.EPIPE:
            raise Ended(_text(_lib.isolator_last_error()))
        _checked(result)
        return self._cycles

    @property
    def lost(self) -> int:
        """Cycles that were lost since the reader was attached."""
        return _lib.isolator_reader_lost(self._open())

    @property
    def period_ns(self) -> int:
        """The period that the loop was made with."""
        return _lib.isolator_reader_period_ns(self._open())
