"""9. The headline trial, apart from the verdicts: picked from many, so deflated before it is believed."""

from __future__ import annotations

import pandas as pd

from analysis import plots
from analysis.load import Experiment
from analysis.page import Markup, bullets, element, figure, figures, muted, section
from analysis.report.material import Material
from analysis.report.selection import Headline, base_curves, headline
from analysis.statistics import backtest_overfitting, deflated_sharpe
from analysis.svg import figure_svg
from analysis.text import plain, signed

TITLE = "Headline trial"
BLOCKS = (16, 12, 8, 4)  # of PBO; fewer where there are few bars
ABOUT = (
    "Nothing here decides a verdict: a gem is judged at equal configurations and selects none. DSR is the probability "
    "that the true Sharpe ratio exceeds what the best of so many trials reaches by luck; all of them share one path of "
    "prices, so they are worth fewer than they are."
)


def headline_trial(material: Material) -> Markup:
    """The section."""
    experiment = material.experiment
    found = headline(experiment)
    if found is None:
        text = "No judge span has been walked by a finished trial yet."
        return section(TITLE, element("p", text), anchor="headline", number=9)
    title = f"{TITLE}: selected after looking at {len(found.names)} configurations"
    content = [bullets(headline_lines(experiment, found)), _curves(material, found), muted(ABOUT)]
    return section(title, *content, anchor="headline", number=9)


def headline_lines(experiment: Experiment, found: Headline) -> list[str]:
    """Which one it is and why, DSR with the number of trials, PBO, and what was lost."""
    lines = [f"{found.trial}: the best objective, IQM of validation Sharpe; its judge returns, mean over base seeds"]
    lines.append(_deflated(experiment, found))
    lines.append(_overfitting(found))
    if found.lost:
        lines.append(f"without a whole series, counted as no trades: {', '.join(found.lost)}")
    return lines


def _deflated(experiment: Experiment, found: Headline) -> str:
    try:
        return deflated_sharpe(found.returns, found.chosen, periods_per_year=experiment.periods_per_year).text
    except ValueError as error:
        return f"DSR not known: {error}"


def _overfitting(found: Headline) -> str:
    bars = len(found.returns)
    blocks = next((count for count in BLOCKS if bars >= 2 * count), 0)
    if not blocks or len(found.names) < 2:
        return "PBO not known: it needs two configurations and 8 bars"
    return f"{backtest_overfitting(found.returns, blocks=blocks).text}, {blocks} blocks of {bars} bars"


def _curves(material: Material, found: Headline) -> Markup:
    curves = base_curves(material.experiment)[found.config]
    untrained = untrained_returns(material.experiment, found.config)
    held = held_returns(material)
    everyone = pd.concat(list(base_curves(material.experiment).values()), axis=1)
    return figures(
        [
            _equity("headline", "Equity of the headline", curves, held, untrained),
            _drawdown(curves, held, untrained),
            _equity("everyone", "Equity of every base run, none selected", everyone, held, None),
        ]
    )


def held_returns(material: Material) -> pd.Series | None:
    """Buying and holding over all judge spans, None when the bars cannot be read again."""
    parts = list(material.holding.returns.values())
    return pd.concat(parts) if parts else None


def untrained_returns(experiment: Experiment, config: str) -> pd.Series | None:
    """Judge returns of the same networks before training, mean over seeds."""
    table = base_curves(experiment, "first").get(config)
    return None if table is None else table.mean(axis=1)


def _equity(name: str, title: str, curves: pd.DataFrame, held: pd.Series | None, untrained: pd.Series | None) -> Markup:
    ends = (1.0 + curves).prod()
    text = f"{curves.shape[1]} runs end at {plain(ends.median())} in the median"
    text += f", [{plain(ends.min())}, {plain(ends.max())}]"
    text += f"; buy and hold at {plain((1.0 + held).prod())}" if held is not None else ""
    text += f"; untrained at {plain((1.0 + untrained).prod())}" if untrained is not None else ""
    text += f". {curves.index[0]:%Y-%m-%d} to {curves.index[-1]:%Y-%m-%d}, costs paid by the runs, none by holding."
    svg = figure_svg(f"equity-{name}", lambda axes: plots.equity(axes, curves, held, untrained), text)
    return figure(title, svg, text)


def _drawdown(curves: pd.DataFrame, held: pd.Series | None, untrained: pd.Series | None) -> Markup:
    series = drawdown_series(curves, held, untrained)
    deepest = ", ".join(f"{name} {_percent(plots.fall_from_peak(values).min())}" for name, values in series.items())
    text = f"Deepest: {deepest}. Of equal shares in all seeds."
    svg = figure_svg("drawdown", lambda axes: plots.drawdown(axes, series), text)
    return figure("Drawdown", svg, text)


def drawdown_series(curves: pd.DataFrame, held: pd.Series | None, untrained: pd.Series | None) -> dict[str, pd.Series]:
    """The runs together and the baselines that are known."""
    series = {"runs, mean": curves.mean(axis=1), "buy and hold": held, "untrained": untrained}
    return {name: values for name, values in series.items() if values is not None}


def _percent(share: float) -> str:
    return f"{signed(100.0 * share, 1)} %"
