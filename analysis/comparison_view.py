"""A comparison in the terminal: what differs first, then what that did. At most 100 columns, readable in 80."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.comparison import Comparison, GemSide, Side, counted
from analysis.differences import Difference
from analysis.effect_between import Effect
from analysis.gradient_shares import SLICES, Share
from analysis.text import ABSENT, percent, percent_interval, plain, signed, signed_interval

WIDEST = 100
SIDES_ABREAST = 3  # columns of shares that 80 characters hold
ABOUT = (
    "Intervals are 95 %, at this one n: not corrected for looking again or for several comparisons. All runs share one "
    "path of prices; no interval here covers another."
)
ABOUT_SHARES = (
    "Norm of a component over the sum of the norms of all that is applied there; median and quartiles over base "
    "members at equal n, last epochs."
)


def print_comparison(found: Comparison, console: Console) -> None:
    """Print everything; what makes Sharpe ratios incomparable is said before any of them."""
    width = min(console.width, WIDEST)
    for side in found.sides:
        console.print(_heading(side), width=width)
    console.print()
    _differences(found, console, width)
    for effect in found.effects:
        for line in _design(effect):
            console.print(line, width=width)
    console.print(Text(f"equal n: {found.equal_n}"), width=width)
    console.print()
    if not any(side.n for side in found.sides):
        console.print("nothing can be held against something yet: no run is scored on both sides")
        return
    console.print(_sharpe(found.sides), width=width)
    console.print()
    console.print(_spread(found.sides), width=width)
    console.print()
    for effect in found.effects:
        for text in _effect_lines(effect):
            console.print(Padding(Text(text.strip()), (0, 0, 0, 2 * text.startswith(" "))), width=width)
    console.print(Text(ABOUT, style="dim"), width=width)
    console.print()
    console.print(_gems(found.sides), width=width)
    console.print()
    for table in _shares(found.sides):
        console.print(table, width=width)
    console.print(Text(ABOUT_SHARES, style="dim"), width=width)


def _heading(side: Side) -> Text:
    states = ", ".join(f"{count} {status}" for status, count in side.trials.items())
    text = Text(f"{side.tag}  {side.name}: {counted(sum(side.trials.values()), 'trial')} ({states})", style="bold")
    return text.append(f"  [{side.label}]", style="bold yellow") if side.label else text


def _table(*columns: str) -> Table:
    """The first column is text, the others are numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(columns):
        table.add_column(escape(name), justify="right" if place else "left", no_wrap=bool(place))
    return table


def _differences(found: Comparison, console: Console, width: int) -> None:
    tags = [side.tag for side in found.sides]
    parts = {"settings": found.differences.settings, "code and machine": found.differences.code}
    parts["data"] = found.differences.data
    for title, rows in parts.items():
        if not rows:
            console.print(Text(f"{title}: no difference"), width=width)
            continue
        console.print(Text(f"{title}:", style="bold"), width=width)
        console.print(_difference_table(rows, tags), width=width)
        if title.startswith("code") and all(row.name != "source" for row in rows):
            console.print(Text("  the sources of trainer and kernels are equal", style="dim"), width=width)
    console.print()


def _difference_table(rows: Sequence[Difference], tags: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", max_width=40, overflow="fold")
    for tag in tags:
        table.add_column(tag, ratio=1, overflow="fold")
    for row in rows:
        table.add_row(Text(f"  {row.name}"), *(Text(value) for value in row.values))
    return table


def _design(effect: Effect) -> Iterator[Text]:
    """Whether and how the two can be compared."""
    names = f"{effect.second} against {effect.first}"
    if not effect.comparable:
        yield Text(f"{names}: NOT COMPARABLE, {effect.why}", style="bold red")
        yield Text("their Sharpe ratios stand below, without a difference", style="red")
    elif effect.paired:
        changed = f"differ only in {', '.join(effect.changed)}" if effect.changed else "have equal hyperparameters"
        yield Text(f"{names}: paired; configurations {changed}, with common seeds, folds, bars and judge spans")
    else:
        yield Text(f"{names}: unpaired; {effect.why}", style="yellow")
    for caution in effect.cautions:
        yield Text(f"{names}: {caution}", style="yellow")


def _sharpe(sides: Sequence[Side]) -> Table:
    table = _table("judge Sharpe", "runs", "mean", "95 %", "over", "floored")
    for side in sides:
        over = counted(side.n, side.unit)
        runs, interval = str(side.variance[0].n), signed_interval(side.low, side.high)
        table.add_row(f"{side.tag}  {side.name}", runs, signed(side.mean), Text(interval), over, str(side.floored))
    return table


def _spread(sides: Sequence[Side]) -> Table:
    table = _table("variance of Sharpe", "variance", "95 %", "[lo, hi]")
    for side in sides:
        for source in side.variance:
            values = _variance(source.variance, source.interval, source.df)
            table.add_row(f"{side.tag}  {source.title}", *values, Text(signed_interval(source.lo, source.hi)))
    for side in sides:
        best, name = side.best, f"{side.tag}  best Sharpe variance (selected)"
        values = _variance(best.variance, best.interval, best.df)
        table.add_row(name, *values, Text(signed_interval(best.lo, best.hi)))
    return table


def _variance(value: float, interval: tuple[float, float], df: float) -> tuple[str, Text]:
    return plain(value, 3), Text(f"[{plain(interval[0], 3)}, {plain(interval[1], 3)}]" if df >= 1.0 else ABSENT)


def _effect_lines(effect: Effect) -> Iterator[str]:
    """The difference and what stands beside it, a sentence each."""
    if not effect.comparable:
        return
    names = f"{effect.second} - {effect.first}"
    units = " and ".join(f"{n}" for n in dict.fromkeys(effect.n))
    if effect.pairs and effect.identical == effect.pairs:
        yield f"{names}: no difference; {counted(effect.pairs, 'pair')} with equal scores, and no other pair"
        yield from _equal_parameters(effect)
        return
    if effect.difference is None:
        yield f"{names}: fewer than 2 {effect.unit}s on a side, so no interval"
    else:
        found = effect.difference
        value = f"{signed(found.value)} {signed_interval(found.low, found.high)}"
        over = f"over {units} {effect.unit}s{', paired' if effect.paired else ', Welch'}"
        yield f"{names}: Sharpe {value} {over}, p = {found.p:.2g}"
        if min(effect.n) < effect.first_look and effect.unit == "configuration":
            yield f"  fewer than the {effect.first_look} configurations of the first look: a description, no evidence"
        if effect.unit == "seed":
            yield "  seeds of one configuration: whatever this shows, it shows of that configuration alone"
    if effect.paired:
        yield from _paired_lines(effect)
    elif effect.variance is not None:
        low, high = effect.variance.interval
        yield f"  variance ratio {effect.variance.value:.2f} [{low:.2f}, {high:.2f}] (Bonett)"


def _paired_lines(effect: Effect) -> Iterator[str]:
    if effect.wins is not None:
        yield f"  win rate {_share(effect.wins)} of {effect.pairs} pairs; {effect.identical} pairs have equal scores"
    if effect.improvement is not None:
        yield f"  a run of {effect.second} beats one of {effect.first} with any seed: {_share(effect.improvement)}"
    if effect.spread is not None:
        spread = effect.spread
        few = "; one seed a configuration: says nothing" if spread.spare <= 0 else ""
        yield (
            f"  spread of seeds: mean |deviation| x {plain(spread.ratio)}, paired Brown-Forsythe p = "
            f"{spread.p_less:.2g} for a smaller one{few}"
        )
    yield from _equal_parameters(effect)


def _equal_parameters(effect: Effect) -> Iterator[str]:
    if effect.of_parameters:
        yield f"  parameters equal bit for bit in {effect.same_parameters} of {effect.of_parameters} members"


def _share(found: object) -> str:
    value, low, high = (getattr(found, name) for name in ("value", "low", "high"))
    return f"{percent(value)} {percent_interval(low, high)}"


def _gems(sides: Sequence[Side]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("gem", "", "size at equal n, 95 %", "n"):
        justify: Literal["left", "right"] = "right" if name == "n" else "left"
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=24, justify=justify)
    table.add_column("verdict", ratio=1)
    table.add_column("of n", justify="right", no_wrap=True)
    rows = [(gem, side) for side in sides for gem in side.gems]
    for name, own in groupby(sorted(rows, key=lambda row: _place(row[0].gem, rows)), key=lambda row: row[0].gem):
        for number, (gem, side) in enumerate(own):
            numbers = (Text(_size(gem)), str(gem.size.n), gem.verdict, str(gem.looked))
            table.add_row(Text("" if number else name), side.tag, *numbers)
    if not rows:
        table.add_row(ABSENT, "", "no gem has been measured", "", "", "")
    return table


def _place(gem: str, rows: Sequence[tuple[GemSide, Side]]) -> int:
    return [row[0].gem for row in rows].index(gem)


def _size(gem: GemSide) -> str:
    size = gem.size
    return f"{percent(size.value)} {percent_interval(size.low, size.high)}" if size.n > 1 else percent(size.value)


def _shares(sides: Sequence[Side]) -> Iterator[Table]:
    """Blocks of a few sides abreast."""
    for start in range(0, len(sides), SIDES_ABREAST):
        block = sides[start : start + SIDES_ABREAST]
        tables = [{(share.slice, share.component): share for share in side.gradients} for side in block]
        keys = dict.fromkeys(key for table in tables for key in table)
        rows = sorted(keys, key=lambda key: SLICES.index(key[0]))
        table = _table("share of the gradient", *(side.tag for side in block))
        for part, component in rows:
            cells = (_cell(each.get((part, component))) for each in tables)
            table.add_row(f"{part}: {component}", *(Text(cell) for cell in cells))
        yield table


def _cell(share: Share | None) -> str:
    if share is None or share.high == 0.0:
        return percent(0.0)
    return f"{percent(share.median)} {percent_interval(share.low, share.high)}"
