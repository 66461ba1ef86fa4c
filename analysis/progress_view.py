"""`gemsweep show`: the progress of an experiment as text, once or until it ends. Reads files only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from analysis.progress_state import State, TrialProgress, Watch
from analysis.text import ABSENT, duration, percent, percent_interval, signed, signed_interval

WIDEST = 100
SHOWN = 24  # trials
EVERY = 2.0  # seconds between two looks
IDLE = 15.0  # seconds without any process before a follower stops: a study pauses between its steps
ORDER = {"running": 0, "failed": 1, "done": 2, "waiting": 3}
STYLES = {"running": "bold", "failed": "bold red", "done": "green", "waiting": "dim"}
ABOUT = (
    "IQM: interquartile mean of the base members' validation Sharpe, failures at the floor. Best: the largest so far, "
    "chosen by looking; its 95 % interval draws seeds again within each fold."
)
ABOUT_SIZES = (
    "gem sizes so far, share of |c51_bs|: geometric mean over configurations, 95 % t interval; the verdict looks only "
    "where its schedule says"
)


def show(folder: Path | str, console: Console) -> None:
    """Print the state of the experiment. Errors: RecordError when the folder holds none."""
    _print(Watch(folder).look(), console)


def _print(state: State, console: Console) -> None:
    console.print(view(state), width=min(console.width, WIDEST))
    if way := _way_on(state):
        console.print(Text(way), soft_wrap=True)  # so that the command can be copied from any terminal


def follow(
    folder: Path | str,
    console: Console,
    *,
    every: float = EVERY,
    idle: float = IDLE,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Show the state until the sweep ends, or Ctrl-C: a live table in a terminal, elsewhere a line a change.

    It ends when no process has worked on the experiment for `idle` seconds; then the table is printed.
    """
    watch = Watch(folder)
    state = first = watch.look()
    try:
        if console.is_terminal:
            with Live(view(first), console=console, auto_refresh=False, transient=True) as live:
                for state in _looks(watch, first, every, idle, sleep, now):
                    live.update(view(state), refresh=True)
        else:
            told = ""
            for state in _looks(watch, first, every, idle, sleep, now):
                if (line := summary(state)) != told:
                    console.print(f"{line}{_time_left(state)}", highlight=False, markup=False, soft_wrap=True)
                told = line
    except KeyboardInterrupt:
        pass  # the sweep goes on
    _print(state, console)


def _looks(
    watch: Watch, state: State, every: float, idle: float, sleep: Callable[[float], None], now: Callable[[], float]
) -> Iterator[State]:
    worked = now() if not state.idle else now() - idle
    yield state
    while now() - worked < idle:
        sleep(every)
        state = watch.look()
        worked = now() if not state.idle else worked
        yield state


def summary(state: State) -> str:
    """One sentence that changes only when the experiment does."""
    parts = [f"{state.name}: trials {state.count('done')}/{len(state.trials)} done"]
    parts += [f"{state.count(status)} {status}" for status in ("running", "failed") if state.count(status)]
    parts.append(f"epochs {sum(max(t.epoch, 0) for t in state.trials)}/{sum(t.epochs for t in state.trials)}")
    if leading := _leading(state):
        parts.append(f"leading now: validation IQM {signed(leading.iqm)} ({leading.trial})")
    frozen, alarms = sum(t.frozen for t in state.trials), sum(len(t.alarms) for t in state.trials)
    parts += [f"{_count(frozen, 'member')} frozen"] * bool(frozen) + [_count(alarms, "alarm")] * bool(alarms)
    return " · ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _leading(state: State) -> TrialProgress | None:
    known = [trial for trial in state.trials if trial.iqm == trial.iqm]
    return max(known, key=lambda trial: trial.iqm, default=None)


def _time_left(state: State) -> str:
    return f" · about {duration(state.seconds_left)} left" if state.seconds_left is not None else ""


def view(state: State) -> Group:
    """Everything, at most 100 columns wide."""
    head = Text(summary(state), style="bold")
    head.append(_time_left(state), style="default not bold")
    parts: list[Text | Table] = [head]
    parts += [Text(state.label, style="bold yellow")] if state.label else []
    parts.append(_table(state))
    if len(state.trials) > SHOWN:
        parts.append(Text(f"{len(state.trials) - SHOWN} more trials", style="dim"))
    parts += [Text(ABOUT, style="dim"), Text(), *_size_lines(state)]
    parts += [Text(line, style="bold red") for line in _alarm_lines(state)]
    parts += [Text(f"failed: {t.trial}: {t.failure}", style="red") for t in state.trials if t.status == "failed"]
    parts += [Text(f"damaged: {problem}", style="red") for problem in state.problems]
    return Group(*parts)


def _table(state: State) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("trial", no_wrap=True, overflow="ellipsis", max_width=24)
    for name in ("status", "epoch", "members", "IQM", "best", "95 %", "at"):
        table.add_column(name, justify="left" if name == "status" else "right", no_wrap=True)
    for trial in sorted(state.trials, key=lambda trial: (ORDER[trial.status], trial.launch))[:SHOWN]:
        frozen = f" ({trial.frozen} frozen)" if trial.frozen else ""
        table.add_row(
            Text(trial.trial), Text(trial.status, style=STYLES[trial.status]), f"{max(trial.epoch, 0)}/{trial.epochs}",
            f"{trial.members}{frozen}", signed(trial.iqm), signed(trial.best),
            Text(signed_interval(trial.low, trial.high)),
            str(trial.best_epoch) if trial.best_epoch >= 0 else ABSENT,
        )  # fmt: skip
    return table


def _size_lines(state: State) -> Iterator[Text]:
    if not state.sizes:
        yield Text("no gem has been measured yet", style="dim")
        return
    yield Text(ABOUT_SIZES, style="dim")
    width = max(len(size.gem) for size in state.sizes)
    for size in state.sizes:
        interval = percent_interval(size.low, size.high) if size.low == size.low else "one configuration, no interval"
        yield Text(f"  {size.gem:{width}}  {percent(size.size)} {interval}  n={size.n}")


def _alarm_lines(state: State) -> list[str]:
    found = [f"watchdog: {trial.trial}: {alarm}" for trial in state.trials for alarm in trial.alarms]
    return [*found[:SHOWN], *([f"watchdog: {len(found) - SHOWN} more alarms"] if len(found) > SHOWN else [])]


def _way_on(state: State) -> str:
    """What to do about an experiment that nobody runs."""
    waiting, failed = state.count("waiting"), state.count("failed")
    if not state.idle or not waiting + failed:
        return ""
    left = [f"{count} {what}" for count, what in ((waiting, "not finished"), (failed, "failed")) if count]
    return f"nothing runs; {', '.join(left)}: gemsweep resume {state.path}"
