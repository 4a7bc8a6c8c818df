"""What the pages that Slipway writes for people share: one file each, nothing runs, nothing is loaded."""

from __future__ import annotations

from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --page: #ffffff;
  --card: #f6f8fa; --good: #18794e; --bad: #c4314b; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #333c48;
  --page: #12161c; --card: #1b2129; --good: #4cc38a; --bad: #ff7a8f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header { border-bottom: 1px solid var(--line); padding-bottom: 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .75rem; }
p { margin: .25rem 0; }
.soft { color: var(--soft); }
.good { color: var(--good); }
.bad { color: var(--bad); }
.num { font-variant-numeric: tabular-nums; text-align: right; }
.verdict { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; border: 1.5px solid;
  font-weight: 600; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem;
  margin-top: 1.25rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1rem; }
.card b { display: block; font-size: 1.7rem; font-variant-numeric: tabular-nums; line-height: 1.2; }
svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
table { border-collapse: collapse; width: 100%; }
.wide { overflow-x: auto; }
th, td { text-align: left; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
th.num { text-align: right; }
code { font-size: .9em; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } h2 { break-after: avoid; }
  .card, tr, svg { break-inside: avoid; } .cards { grid-template-columns: repeat(3, 1fr); }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def page(title: str, body: str, footer: str, style: str = "") -> str:
    """Return a whole page; `title` and `footer` are plain text, `body` is HTML, `style` is CSS beside what all
    pages share.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n{body}\n"
        f"<footer>{text(footer)}</footer>\n</body>\n</html>\n"
    )


def text(value: object) -> str:
    """Return `value` as text that is no markup, in elements and in quoted attributes alike."""
    return escape(str(value), quote=True)
