"""Real pseudo-terminals of a given size, and what somebody in front of one sees."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Iterator

CONTROL = re.compile(r"\x1b\[(\?)?([0-9;]*)([A-Za-z])")


class Screen:
    """As much of a terminal as our programs use: lines that wrap, returns, moves up, and wiping a line."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines = [""]
        self._row = self._column = 0
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """What is seen, without spaces at the ends of lines and empty lines at the end."""
        return "\n".join(line.rstrip() for line in self._lines).rstrip().split("\n")

    def feed(self, text: str) -> None:
        """Take what a program, or the terminal itself, writes."""
        text, self._rest = self._rest + text, ""
        place = 0
        while place < len(text):
            if text[place] == "\x1b":
                found = CONTROL.match(text, place)
                if found is None:
                    self._rest = text[place:]  # it goes on with the next piece
                    return
                self._control(found[2], found[3], private=bool(found[1]))
                place = found.end()
                continue
            self._write(text[place])
            place += 1

    def _write(self, sign: str) -> None:
        if sign == "\r":
            self._column = 0
        elif sign == "\n":
            self._row += 1
        else:
            if self._column == self.width:
                self._row, self._column = self._row + 1, 0
            self._reach()
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + sign + line[self._column + 1 :]
            self._column += 1
        self._reach()

    def _reach(self) -> None:
        self._lines += [""] * (self._row + 1 - len(self._lines))

    def _control(self, number: str, kind: str, *, private: bool) -> None:
        if kind == "A":
            self._row = max(0, self._row - int(number or 1))
        elif kind == "K":
            assert number == "2"
            self._lines[self._row] = ""
        else:
            assert private or kind == "m", f"an unknown control: {number}{kind}"


class Terminal:
    """A process of its own in a pseudo-terminal."""

    def __init__(self, process: int, end: int, screen: Screen) -> None:
        self.screen = screen
        self._process, self._end = process, end

    def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Read on until the screen is as wanted."""
        stop = time.monotonic() + 60
        while not seen(self.screen.lines):
            assert time.monotonic() < stop and self._read(), "\n".join(self.screen.lines)
        return self.screen.lines

    def press(self, keys: bytes) -> None:
        """Type on its keyboard."""
        os.write(self._end, keys)

    def ended(self) -> int:
        """Read to its end, and give its exit code."""
        while self._read():
            pass
        return self._wait()

    def close(self) -> None:
        """End the process, if it has not ended, and the terminal."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            self._wait()
        os.close(self._end)

    def _wait(self) -> int:
        process, self._process = self._process, 0
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def _read(self) -> bool:
        try:
            read = os.read(self._end, 65536)
        except OSError:  # what Linux says of a terminal without processes
            return False
        self.screen.feed(read.decode(errors="replace"))
        return bool(read)


@contextlib.contextmanager
def terminal(width: int, work: Callable[[], int], height: int = 24) -> Iterator[Terminal]:
    """Run `work` in a child that has a terminal of this size. It is forked, and need not load torch again."""
    process, end = pty.fork()
    if process == 0:
        code = 1
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            os.environ.update(TERM="xterm", NO_COLOR="1")
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            try:
                code = work()
            except Exception:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    made = Terminal(process, end, Screen(width))
    try:
        yield made
    finally:
        made.close()
