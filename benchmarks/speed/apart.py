"""Calls in a process of their own: it gives all device memory back at its end, and it can be ended."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 10.0  # seconds for a process to end once it has answered


def apart(function: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Any:
    """The result of a call in a fresh process. `limit`: seconds after which it is killed, imports included.

    Errors: TimeoutError past the limit; RuntimeError with the type and text of what the call raised, or of its death.
    """
    context, waited = mp.get_context("spawn"), 0.0
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(send, function, arguments))
    process.start()
    send.close()  # only the child's end is left: its death ends the wait below
    try:
        if not receive.poll(limit):
            raise TimeoutError(f"timed out after {limit:g} s")
        good, found = receive.recv()
        waited = PATIENCE
    except EOFError:
        process.join()
        raise RuntimeError(f"the process ended with code {process.exitcode}") from None
    finally:
        process.join(waited)
        if process.is_alive():
            _kill(process)
    if not good:
        raise RuntimeError(found)
    return found


def _work(out: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    with suppress(OSError):
        os.setsid()  # a group of its own, so that compilers which it started end with it
    try:
        out.send((True, function(*arguments)))
    except Exception as error:
        out.send((False, f"{type(error).__name__}: {str(error)[:500]}"))


def _kill(process: mp.process.BaseProcess) -> None:
    """The process with its group; before it has made one, the process alone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.kill()
    process.join()
