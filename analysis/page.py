"""Pieces of a self-contained HTML page: everything that comes from data is escaped here and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STYLE = """
:root { color-scheme: light dark; --paper:#fff; --ink:#16181d; --muted:#5d6470; --rule:#dcdfe4; --panel:#f5f6f8;
  --accent:#2060d0; --good:#0b6e47; --warn:#7a5c00; --bad:#b02020; --on:#fff;
  --s1:#2f6db5; --s2:#b4541f; --s3:#5c8a1f; --s4:#7a4fb0; --s5:#a3398a; --s6:#157f84; --s7:#8a6d1a; --s8:#5a6478; }
@media (prefers-color-scheme: dark) { :root { --paper:#14161a; --ink:#e6e8ec; --muted:#9aa2ae; --rule:#343a44;
  --panel:#1c1f25; --accent:#7aa8ff; --good:#4cc38a; --warn:#e0b44c; --bad:#ff8a80; --on:#14161a;
  --s1:#78aef0; --s2:#ee9a67; --s3:#a4cf62; --s4:#b797ea; --s5:#e585cd; --s6:#5cc9cd; --s7:#d8bb5f; --s8:#a6b0c4; } }
* { box-sizing: border-box; }
body { margin:0 auto; padding:1.2rem 1rem 4rem; max-width:68rem; background:var(--paper); color:var(--ink);
  font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; font-variant-numeric:tabular-nums; }
h1 { font-size:1.6rem; line-height:1.25; margin:0 0 .3rem; overflow-wrap:anywhere; }
h2 { font-size:1.25rem; margin:2.6rem 0 .6rem; padding-top:.9rem; border-top:1px solid var(--rule); }
h2 .no { color:var(--muted); font-weight:400; padding-right:.55rem; }
h3 { font-size:1rem; margin:1.2rem 0 .4rem; overflow-wrap:anywhere; } a { color:var(--accent); }
p { margin:.4rem 0; max-width:46rem; } .muted, figcaption { color:var(--muted); font-size:.9rem; }
figcaption, li { overflow-wrap:anywhere; } ul { padding-left:1.2rem; margin:.4rem 0; max-width:46rem; }
code { font-family:ui-monospace,SFMono-Regular,Menlo,monospace; font-size:.82rem; overflow-wrap:anywhere; }
.badge { display:inline-block; padding:.05rem .5rem; border-radius:.3rem; font-size:.78rem; font-weight:700;
  letter-spacing:.02em; color:var(--on); background:var(--muted); white-space:nowrap; }
.good { background:var(--good); } .warn { background:var(--warn); } .bad { background:var(--bad); }
nav { font-size:.88rem; margin:.9rem 0 0; display:flex; flex-wrap:wrap; gap:.15rem 1rem; }
nav a { text-decoration:none; } nav a:hover { text-decoration:underline; }
.facts { list-style:none; margin:1rem 0 0; padding:0; max-width:none; display:grid; gap:.8rem 1.4rem;
  grid-template-columns:repeat(auto-fit,minmax(min(17rem,100%),1fr)); }
.facts li { border-left:3px solid var(--rule); padding-left:.7rem; font-size:.9rem; min-width:0; }
.facts b { display:block; color:var(--muted); font-size:.8rem; font-weight:600; margin-bottom:.1rem; }
table { border-collapse:collapse; width:100%; font-size:.92rem; }
th, td { text-align:left; vertical-align:top; padding:.4rem .9rem .4rem 0; border-bottom:1px solid var(--rule);
  overflow-wrap:break-word; } th:last-child, td:last-child { padding-right:0; }
th { color:var(--muted); font-weight:600; font-size:.82rem; } .n { text-align:right; white-space:nowrap; }
td .sub { display:block; color:var(--muted); font-size:.85em; }
td.wide { border-bottom:1px solid var(--rule); padding-top:0; } tr.joined td { border-bottom:0; padding-bottom:.1rem; }
.scroll { overflow-x:auto; margin:.4rem 0; } .scroll th, .scroll td { white-space:nowrap; padding:.25rem .5rem; }
.heat td { text-align:right; } .heat td.n { --h:0%; background:color-mix(in srgb, var(--accent) var(--h), var(--paper));
  print-color-adjust:exact; } .heat td.none { color:var(--muted); }
.figures { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr)); gap:1rem 1.6rem; }
figure { margin:.6rem 0; max-width:36rem; min-width:0; } figure h3 { margin:0 0 .2rem; }
svg { width:100%; height:auto; display:block; overflow:visible; } svg text { font-family:inherit; }
dl { display:grid; grid-template-columns:minmax(8rem,14rem) 1fr; gap:.35rem 1rem; margin:.4rem 0; }
dt { color:var(--muted); } dd { margin:0; overflow-wrap:anywhere; min-width:0; }
details { border-top:1px solid var(--rule); padding:.5rem 0; } summary { cursor:pointer; overflow-wrap:anywhere; }
.note { border-left:4px solid var(--warn); background:var(--panel); padding:.5rem .8rem; margin:.8rem 0;
  max-width:none; overflow-wrap:anywhere; }
.note.alarm { border-color:var(--bad); } .note.fine { border-color:var(--good); }
@media (max-width:640px) { body { font-size:15px; } dl { grid-template-columns:1fr; gap:0; }
  dd { margin-bottom:.5rem; } table.stack thead { display:none; }
  table.stack tr { display:block; padding:.5rem 0; border-bottom:1px solid var(--rule); }
  table.stack td, table.stack tr.joined td { display:flex; justify-content:space-between; gap:1rem; border:0;
    padding:.1rem 0; text-align:right; white-space:normal; overflow-wrap:anywhere; min-width:0; }
  table.stack td::before { content:attr(data-label); color:var(--muted); text-align:left; flex:none; max-width:60%; }
  table.stack td.text { display:block; text-align:left; } table.stack td.text::before { display:none; }
  table.stack tr.joined { border:0; padding-bottom:0; } }
@media print { body { max-width:none; font-size:10.5pt; } nav { display:none; }
  figure, tr, .facts li { break-inside:avoid; }
  h2, h3 { break-after:avoid; } details::details-content { content-visibility:visible; block-size:auto; }
  .badge { print-color-adjust:exact; } .scroll { overflow:visible; } }
"""


class Markup(str):
    """Text that is HTML already; all other text is escaped where it enters the page."""

    __slots__ = ()


def safe(value: object) -> Markup:
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def element(tag: str, *content: object, **attributes: str) -> Markup:
    """`class_` gives class, `data_label` gives data-label; an empty attribute is left out."""
    named = (
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items() if value
    )
    return Markup(f"<{tag}{''.join(named)}>{''.join(map(safe, content))}</{tag}>")


def badge(word: str, kind: str) -> Markup:
    return element("span", word, class_=f"badge {kind}".strip())


def note(kind: str, *content: object) -> Markup:
    """A paragraph set apart; `kind`: "", "alarm" or "fine"."""
    return element("p", *content, class_=f"note {kind}".strip())


def muted(*content: object) -> Markup:
    return element("p", *content, class_="muted")


def bullets(lines: Iterable[object]) -> Markup:
    return element("ul", *(element("li", line) for line in lines))


def section(title: str, *content: object, anchor: str = "", number: object = "") -> Markup:
    """A part of the page that `#anchor` leads to; `number` stands before its title."""
    before = element("span", number, class_="no") if number else ""
    return element("section", element("h2", before, title), *content, id=anchor)


def facts(rows: Iterable[tuple[object, object]]) -> Markup:
    """Short facts side by side: a name and what is to be said."""
    return element("ul", *(element("li", element("b", name), text) for name, text in rows), class_="facts")


def contents(entries: Iterable[tuple[str, object]]) -> Markup:
    """Links to the sections of the page: (anchor, words)."""
    return element("nav", *(element("a", words, href=f"#{anchor}") for anchor, words in entries), aria_label="Contents")


@dataclass(frozen=True)
class Column:
    """`kind`: "n" numbers at the right, "text" reads as a paragraph on a narrow screen, "" plain."""

    title: str
    kind: str = ""


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], footers: Sequence[object] = ()) -> Markup:
    """A table that stacks on a narrow screen. `footers`: one full-width line below each row, "" for none."""
    head = element(
        "tr", *(element("th", column.title, class_=column.kind if column.kind == "n" else "") for column in columns)
    )
    body = []
    for position, row in enumerate(rows):
        cells = [
            element("td", value, class_=column.kind, data_label=column.title)
            for column, value in zip(columns, row, strict=True)
        ]
        footer = footers[position] if footers else ""
        body.append(element("tr", *cells, class_="joined" if footer else ""))
        if footer:
            body.append(Markup(f'<tr><td class="wide text" colspan="{len(columns)}">{safe(footer)}</td></tr>'))
    return element("table", element("thead", head), element("tbody", *body), class_="stack")


def definitions(rows: Iterable[tuple[object, object]]) -> Markup:
    return element("dl", *(part for term, text in rows for part in (element("dt", term), element("dd", text))))


def details(summary: object, *content: object, shown: bool = False) -> Markup:
    """Content that a click shows; in print it is always there."""
    body = element("summary", summary) + "".join(map(safe, content))
    return Markup(f"<details{' open' if shown else ''}>{body}</details>")


def scroll(content: object, label: str) -> Markup:
    """What is wider than a telephone: it scrolls by itself, by keyboard too."""
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def figure(title: str, svg: str, caption: object) -> Markup:
    return element("figure", element("h3", title), Markup(svg), element("figcaption", caption))


def figures(items: Iterable[Markup]) -> Markup:
    return element("div", *items, class_="figures")


def page(title: str, *content: object) -> str:
    head = element("title", title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{head}\n<style>{STYLE}</style></head>\n'
        f"<body>{''.join(map(safe, content))}</body></html>\n"
    )
