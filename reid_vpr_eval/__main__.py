"""The two commands and ``python -m reid_vpr_eval``: the command line, and what Ctrl-C does to it.

Little is imported here before an interrupt can be answered.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from types import FrameType

__all__ = ["main"]

_EXIT_CODE = 130
_SECONDS_TO_WAIT = 0.05


class _Interrupts:
    """Ends the program at Ctrl-C, but never in the middle of an import.

    Libraries wrap or swallow what is raised while they are imported, so an interrupt that
    comes then is repeated until the import is over. It is raised as SystemExit, which
    nothing on the way out takes for an error of its own.
    """

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, _: int, frame: FrameType | None) -> None:
        """Answer the signal."""
        self.seen = True
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                again = threading.Timer(_SECONDS_TO_WAIT, _interrupt_again)
                again.daemon = True
                again.start()
                return
            frame = frame.f_back
        raise SystemExit(_EXIT_CODE)


def _interrupt_again() -> None:
    """Send the signal to the main thread, which wakes it even where it waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:  # pragma: no cover (not on every system)
        _thread.interrupt_main()


def main() -> None:
    """Run the command line; an interrupt says so and ends with exit code 130."""
    interrupts = _Interrupts()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupts)
    try:
        from reid_vpr_eval.cli import run

        run()
    except BaseException:
        if not interrupts.seen:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("interrupted; nothing was left half-written\n")
        raise SystemExit(_EXIT_CODE) from None


if __name__ == "__main__":
    main()
