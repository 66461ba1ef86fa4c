"""Matplotlib figures as inline SVG: equal bytes for equal data, colours as CSS variables, text in the page's font."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn with these colours, which become variables so that one figure serves the light and the dark page.
INK, MUTED, RULE = "#101112", "#707172", "#d0d1d2"
ACCENT, GOOD, WARN, BAD = "#2060d0", "#107a50", "#8a6a00", "#b02020"
SERIES = ("#2f6db5", "#b4541f", "#5c8a1f", "#7a4fb0", "#a3398a", "#157f84", "#8a6d1a", "#5a6478")  # by turns
VARIABLES = {
    INK: "ink", MUTED: "muted", RULE: "rule", ACCENT: "accent", GOOD: "good", WARN: "warn", BAD: "bad",
} | {colour: f"s{number}" for number, colour in enumerate(SERIES, start=1)}  # fmt: skip
WIDTH = 4.8  # inches; narrow enough to be read on a telephone
LEFT, RIGHT, BOTTOM, TOP = 0.75, 0.12, 0.55, 0.08  # margins in inches; a layout engine would double the time

STYLE: Any = {
    "svg.fonttype": "none", "font.size": 9.5, "figure.facecolor": "none", "axes.facecolor": "none",
    "savefig.facecolor": "none", "axes.edgecolor": MUTED, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10, "axes.titlelocation": "left",
    "axes.titleweight": "bold", "legend.frameon": False, "legend.labelcolor": INK, "path.simplify": True,
    "path.simplify_threshold": 0.3, "axes.formatter.useoffset": False,
    "axes.unicode_minus": True, "date.converter": "concise",
}  # fmt: skip


def figure_svg(name: str, draw: Callable[[Axes], None], text: str, height: float = 2.7, left: float = LEFT) -> str:
    """Draw one panel and return its `<svg>` element; `text` is the alternative for who cannot see it.

    `height` and `left` (the room for tick labels) are in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, height))
        draw(
            figure.add_axes(
                (left / WIDTH, BOTTOM / height, 1.0 - (left + RIGHT) / WIDTH, 1.0 - (BOTTOM + TOP) / height)
            )
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), text)


def label_room(labels: Iterable[str]) -> float:
    """Inches that the longest tick label takes."""
    return 0.25 + 0.075 * max((len(label) for label in labels), default=0)


def _inline(source: str, text: str) -> str:
    """Keeps the element alone: no prologue, no metadata, no sizes in points, short numbers."""
    body = source[source.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    referred = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", body))
    body = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in referred else "", body)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", body)
    body = re.sub(r'(?<= )(d|x|y|transform)="[^"]*"', lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), body)
    body = re.sub(r"(<g[^>]*)>\s*((?:<use[^>]*/>\s*){2,})</g>", _share_style, body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    box = re.search(r'viewBox="[^"]*"', body)
    opening = f'<svg role="img" aria-label="{html.escape(text)}" {box[0] if box else ""}>'
    body = re.sub(r"<svg[^>]*>", lambda _: opening, body, count=1)
    return re.sub(r"\s*\n\s*", "\n", body).replace("xlink:href", "href").strip()


def _share_style(found: re.Match[str]) -> str:
    """Marks of one style in a group: the style is said once. Half of a figure with many dots would be that text."""
    opening, marks = found[1], found[2]
    styles = set(re.findall(r' style="([^"]*)"', marks))
    if len(styles) != 1 or " style=" in opening or marks.count(" style=") != marks.count("<use"):
        return found[0]
    style = styles.pop()
    plain = marks.replace(f' style="{style}"', "")
    return f'{opening} style="{style}">{plain}</g>'
