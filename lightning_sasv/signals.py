"""Signals that ask a command to stop: who hears them, and how it ends.

The first of SIGINT, SIGTERM, SIGHUP and SIGUSR1 raises ``Stopped`` in the main thread, as Ctrl-C
always did: work is left in order, and what is on disk is whole at any moment. A thread stands by
for calls that do not come back: after ``PATIENCE`` seconds, or at a second signal, it ends the
process and its helpers at once. A signal that is ignored (nohup) or that somebody else handles
(submitit in its jobs, a program that calls ours) stays as it is.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
ALL = tuple(signal.Signals[name] for name in _NAMES if hasattr(signal, name))

PARENT = "LIGHTNING_SASV_PARENT"
"""Variable for the processes of one training: the one that starts the others, and ends them."""

PATIENCE = 6.0
"""Seconds that an orderly end may take."""

AGAIN = 0.05
"""Seconds until a signal is repeated whose exception could not be raised where it came."""

IMPORTING = 2.0
"""Seconds that an import may go on after a signal, which is heard when it has ended."""

_REPEAT = 255
"""To the thread that stands by: send the signal again."""

SAME = 0.5
"""A second signal within so many seconds is the first one: sent to a process and to its group."""

ADVICE = "what was written so far is kept: start the same command again"
"""How to go on where a command says nothing else."""

End = Callable[[int], object]
"""Ends a helper: called with the number of the signal, and with SIGKILL when there is no time."""


def exit_code(number: int) -> int:
    """What a command that was stopped by a signal exits with; SIGUSR1 asks for a checkpoint."""
    return 75 if number == getattr(signal, "SIGUSR1", None) else 128 + number


def importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def rank() -> int:
    """Number of this process among those of one training."""
    variables = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    return next((int(os.environ[v]) for v in variables if os.environ.get(v, "").isdigit()), 0)


def ignore_signals() -> None:
    """Leave signals to another process, which ends this one."""
    for one in ALL:
        signal.signal(one, signal.SIG_IGN)


def obey() -> None:
    """In a process that another one started for its training, leave signals to it and end with it.

    The Trainer starts such a process by the same command line; it is told from others by its
    environment.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0" and os.environ.get(PARENT):
        ignore_signals()
        arguments = (int(os.environ[PARENT]),)
        threading.Thread(target=_end_with, args=arguments, name="parent", daemon=True).start()
    else:
        os.environ[PARENT] = str(os.getpid())


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


class Stopped(KeyboardInterrupt):
    """A signal asked for the end; the text says how to go on."""

    def __init__(self, number: int, advice: str = "") -> None:
        super().__init__(advice)
        self.number = number


class _Listener:
    """What one command has heard."""

    def __init__(self, to_the_end: bool) -> None:
        self.to_the_end = to_the_end
        self.own: list[signal.Signals] = []
        self.first: int | None = None
        self.raised = self.over = self.said = False
        self.held = self.repeated = 0
        self.since: float | None = None
        self.advice = ADVICE
        self.patience: dict[int, float] = {}
        self.ends: list[End] = []
        self.passed_on = threading.Event()
        self.read, self.write = os.pipe()
        os.set_blocking(self.write, False)

    def take(self) -> None:
        """Handle the signals that nobody else handles or ignores."""
        free = (signal.SIG_DFL, signal.default_int_handler)
        self.own = self.own or [one for one in ALL if signal.getsignal(one) in free]
        for one in self.own:
            signal.signal(one, self.hear)

    def hear(self, number: int, frame: FrameType | None = None) -> None:
        """Stop what the main thread does, once; amid an import, which may be one of C++, later."""
        self.first = self.first or number
        if self.raised or self.held:
            return
        if self.to_the_end and importing(frame):
            self.repeat()
            return
        self.raised = True
        raise Stopped(self.first)

    def repeat(self) -> None:
        """Have the signal sent again a moment later, by the other thread."""
        if self.since is not None and time.monotonic() - self.since > IMPORTING:
            self.end_now()
        os.write(self.write, bytes([_REPEAT]))

    def could_not_raise(self, what: sys.UnraisableHookArgs) -> None:
        """A finaliser or a callback of a library met the signal: Python drops what they raise."""
        if not isinstance(what.exc_value, Stopped):
            sys.__unraisablehook__(what)
        elif self.raised and not self.over:
            self.raised = False
            self.repeat()

    def stand_by(self) -> None:
        """The thread: signals reach it through a pipe, whatever the main thread is busy with."""
        while True:
            if not select.select([self.read], [], [], self._left())[0]:
                self.end_now()
            for number in os.read(self.read, 64):
                if number == 0:
                    return
                if number == _REPEAT:
                    self.send_again()
                if number in self.own:
                    self._note(number)

    def send_again(self) -> None:
        """Repeat the signal, unless the command has ended meanwhile and nobody would hear it."""
        time.sleep(AGAIN)
        if not self.raised:
            self.repeated += 1  # so that it is not taken for a second one
            os.kill(os.getpid(), self.first or signal.SIGTERM)

    def _left(self) -> float | None:
        """Seconds until the end may not be waited for any longer."""
        if self.since is None:
            return None
        patience = self.patience.get(self.first or 0, PATIENCE)
        return max(0, self.since + patience - time.monotonic())

    def _note(self, number: int) -> None:
        self.first = self.first or number
        if self.repeated:
            self.repeated -= 1
            return
        if self.over or (self.since is not None and time.monotonic() - self.since > SAME):
            self.end_now()
        if self.since is None:
            self.since = time.monotonic()
            self.end_helpers(number)

    def end_helpers(self, number: int) -> None:
        """Pass a signal on."""
        for end in list(self.ends):
            with suppress(Exception):  # it has ended, or never begun
                end(number)
        self.passed_on.set()

    def end_now(self) -> NoReturn:
        """End without a look back; who else is writing to standard error is not waited for."""
        number = self.first or signal.SIGTERM
        self.end_helpers(signal.SIGKILL)
        words = "" if self.said else _last_words(number, self.advice)
        with suppress(OSError):
            os.write(2, words.encode())
        os._exit(exit_code(number))


_listener: _Listener | None = None


def _last_words(number: int, advice: str) -> str:
    """What the first of several processes says in the end; the others say nothing."""
    how = "interrupted" if number == 2 else f"stopped by {signal.Signals(number).name}"
    return f"lightning: {how}; {advice}\n" if rank() == 0 else ""


@contextmanager
def listening(to_the_end: bool = False) -> Iterator[None]:
    """Hear signals while a command runs; whatever breaks it off after one becomes ``Stopped``.

    Args:
        to_the_end: The process ends with the command: go on listening until it has ended.
    """
    if _listener is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    with _ears(to_the_end) as listener:
        try:
            yield
        except BaseException as error:
            if listener.first is None:
                raise
            said = str(error) if isinstance(error, KeyboardInterrupt) else ""
            raise Stopped(listener.first, said or listener.advice) from None
        if listener.raised:  # and somebody has swallowed it
            raise Stopped(listener.first or signal.SIGINT, listener.advice)
        listener.over, listener.advice = True, "its work was done"


@contextmanager
def _ears(to_the_end: bool) -> Iterator[_Listener]:
    """A listener with its thread; unless it is needed to the end, all is then as it was before."""
    global _listener
    before = {one: signal.getsignal(one) for one in ALL}
    hook = sys.unraisablehook
    listener = _listener = _Listener(to_the_end)
    sys.unraisablehook = listener.could_not_raise
    if to_the_end:
        atexit.register(ignore_signals)  # as the interpreter ends it gives handlers up
    wakeup = signal.set_wakeup_fd(listener.write, warn_on_full_buffer=False)
    thread = threading.Thread(target=listener.stand_by, name="signals", daemon=True)
    thread.start()
    try:
        listener.take()  # now that everybody is there who has to hear
        yield listener
    finally:
        listener.raised = True
        if not to_the_end:
            sys.unraisablehook = hook
            signal.set_wakeup_fd(wakeup)
            for one, handler in before.items():
                signal.signal(one, handler)
            os.write(listener.write, b"\0")
            thread.join()
            os.close(listener.read)
            os.close(listener.write)
            _listener = None


def leave(error: KeyboardInterrupt) -> NoReturn:
    """Say how the stopped command goes on, and exit.

    A process of our own does not wait for its threads, which may be in the middle of long work.
    """
    number = getattr(error, "number", signal.SIGINT)
    with suppress(OSError, ValueError):  # the terminal may be gone
        sys.stderr.write(_last_words(number, str(error) or ADVICE))
        sys.stderr.flush()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if _listener is not None and _listener.first is not None:
        _listener.said = _listener.passed_on.wait(PATIENCE)
        atexit._run_exitfuncs()
        os._exit(exit_code(number))
    raise SystemExit(exit_code(number))


def heard() -> int | None:
    """The signal that stops the command, if any."""
    return None if _listener is None else _listener.first


def take_back() -> None:
    """Handle our signals again after somebody else has taken them."""
    if _listener is not None:
        _listener.take()


def advise(text: str) -> str:
    """From now on, say this where a signal stops the command: what is kept, and how to go on.

    Returns:
        What would have been said.
    """
    if _listener is None:
        return ""
    former, _listener.advice = _listener.advice, text
    return former


def wait_longer(number: int, seconds: float) -> None:
    """Let an orderly end after this signal take so long, where somebody else has to be asked."""
    if _listener is not None:
        _listener.patience[number] = seconds


@contextmanager
def advising(text: str) -> Iterator[None]:
    """As ``advise``; and the Trainer's exit after an interrupt becomes one again, with the text."""
    advise(text)
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt(text if _listener is None else _listener.advice) from None
        raise


@contextmanager
def held() -> Iterator[None]:
    """Let no signal break off what is done here; it is heard afterwards."""
    listener = _listener
    if listener is None:
        yield
        return
    listener.held += 1
    try:
        yield
    finally:
        listener.held -= 1
        if listener.first is not None and not listener.held:
            listener.hear(listener.first)


@contextmanager
def left_to(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Leave signals to somebody who ends the work in order; nobody stands by meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wakeup = signal.set_wakeup_fd(-1)
    taken = ALL if _listener is None else _listener.own
    before = {one: signal.signal(one, handler) for one in taken}
    try:
        yield
    finally:
        for one, former in before.items():
            signal.signal(one, former)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)


def add_helper(end: End) -> None:
    """Have ``end`` called as soon as a signal comes, by another thread."""
    if _listener is not None:
        _listener.ends.append(end)
        if _listener.first is not None:
            end(_listener.first)


def _forget_after_fork() -> None:
    """A forked helper leaves signals to its parent, which ends it by SIGTERM or SIGKILL."""
    if _listener is not None:
        signal.set_wakeup_fd(-1)
        for one in _listener.own:
            signal.signal(one, signal.SIG_DFL if one == signal.SIGTERM else signal.SIG_IGN)


if hasattr(os, "fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
