"""The validation report as one HTML page: nothing runs, nothing is loaded, light and dark, good in print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.model_release.document_form import form_of
from include.model_release.reports.page_style import page, text
from include.model_release.reports.validation.examples import EXAMPLES_STYLE, examples_section, number

_STYLE = """
:root { --bar: #3b6fd4; --heat: 59, 111, 212; --miss: 196, 49, 75; }
@media screen and (prefers-color-scheme: dark) { :root { --bar: #7aa5f8; --heat: 122, 165, 248;
  --miss: 255, 122, 143; } }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
svg text.soft { fill: var(--soft); }
svg text.mid { text-anchor: middle; }
svg text.end { text-anchor: end; }
svg .cell { rx: 4px; stroke: var(--line); fill: transparent; }
.confusion { max-width: 36rem; }
"""
# Figures that are no shares: key, caption, the limit's key, and its words.
_SIZES = (
    ("mae", "Mean absolute error", "mae_max", "at most"),
    ("rmse", "Root mean squared error", "rmse_max", "at most"),
    ("r2", "R²", "r2_min", "at least"),
)


@form_of("the validation report")
def render_report_html(report: Mapping[str, Any]) -> str:
    """Return the page for what `expectations.validation_report` or `signature_report.signature_report` makes.

    Missing parts are left out. Raises UserError for a report of another form.
    """
    title = f"{report.get('model', 'model')} version {report.get('version', '?')}: validation"
    parts = [
        _header(report),
        _side_by_side(report.get("tensors") or (), report.get("stable_version"), report.get("remedy")),
        _cards(report.get("numbers") or {}, report.get("stable_version")),
        _expectations(report.get("expectations") or ()),
        _confusion(report.get("confusion") or {}),
        examples_section(
            str(report.get("kind", "")), report.get("worst") or (), report.get("stable_version")
        ),
        _signature(report.get("signature") or {}),
    ]
    body = "\n".join(part for part in parts if part)
    footer = "Slipway wrote this page from validation.json, which lies beside it."
    return page(title, body, footer, _STYLE + EXAMPLES_STYLE)


def _header(report: Mapping[str, Any]) -> str:
    verdict = _verdict(report.get("outcome") == "pass", "passed validation", "refused in validation")
    stable = report.get("stable_version")
    at = str(report.get("created_at", "")).removesuffix("Z").removesuffix("+00:00").replace("T", " ")
    compared = f"compared with version {text(stable)}" if stable else "no stable version to compare with"
    left_out = report.get("not_compared")
    if left_out:
        compared = "not compared with the stable version"
    reasons = "".join(f"<li>{text(reason)}</li>" for reason in report.get("reasons") or ())
    return (
        f"<header><h1>{text(report.get('model', 'model'))} <span class=soft>version</span> "
        f"{text(report.get('version', '?'))} {verdict}</h1>"
        f"<p class=soft>{text(at)} UTC, {compared}</p>"
        + (f"<p>Not compared: {text(left_out)}</p>" if left_out else "")
        + (f"<p>Not met:</p><ul>{reasons}</ul>" if reasons else "")
        + "</header>"
    )


def _cards(numbers: Mapping[str, Any], stable: object) -> str:
    shares = {
        "accuracy": "Accuracy",
        "score": f"Likeness to the golden answers ({text(numbers.get('match', ''))})",
        "agreement": f"Agreement with version {text(stable)}",
    }
    cards = [
        f"<div class=card>{caption}<b>{100 * float(numbers[name]):.2f}&thinsp;%</b>"
        f"{_bar(float(numbers[name]), numbers.get(f'{name}_min'), caption)}</div>"
        for name, caption in shares.items()
        if numbers.get(name) is not None
    ]
    for name, caption, limit, words in _SIZES:
        if numbers.get(name) is not None:
            asked = numbers.get(limit)
            note = "no limit" if asked is None else f"{words} {asked:g}"
            cards.append(
                f"<div class=card>{caption}<b>{float(numbers[name]):.4g}</b><p class=soft>{note}</p></div>"
            )
    if numbers.get("rows") is not None:
        cards.append(_rows_card(numbers))
    return f"<section class=cards>{''.join(cards)}</section>" if cards else ""


def _rows_card(numbers: Mapping[str, Any]) -> str:
    bad = [
        f"{numbers[name]} with{words}"
        for name, words in (
            ("not_finite_rows", " answers that are not finite"),
            ("unanswered_rows", "out an answer"),
        )
        if numbers.get(name)
    ]
    mood, note = ("bad", ", ".join(bad)) if bad else ("soft", "all were answered")
    return f"<div class=card>Golden rows<b>{int(numbers['rows']):,}</b><p class={mood}>{text(note)}</p></div>"


def _bar(value: float, least: float | None, label: str) -> str:
    """Draw a share as a bar from 0 to 100 %, with a mark where it must reach to."""
    width = 300.0
    at = [f'<rect x="0" y="4" width="{width:g}" height="10" rx="5" style="fill: var(--line)"/>']
    colour = "var(--bar)" if least is None or value >= least else "var(--bad)"
    filled = width * min(max(value, 0.0), 1.0)
    at.append(f'<rect x="0" y="4" width="{filled:.1f}" height="10" rx="5" style="fill: {colour}"/>')
    described = f"{label} {100 * value:.2f} percent"
    if least is not None:
        x = width * min(max(float(least), 0.0), 1.0)
        side = "soft end" if x > width / 2 else "soft"
        at.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="18" style="stroke: var(--ink); stroke-width: 2"/>'
        )
        at.append(f'<text class="{side}" x="{x:.1f}" y="30">at least {100 * float(least):g} %</text>')
        described += f", required {100 * float(least):g} percent"
    return f'<svg viewBox="0 0 {width:g} 34" role="img" aria-label="{text(described)}">{"".join(at)}</svg>'


def _expectations(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return ""
    rows = "".join(
        f"<tr><td>{_verdict(bool(result.get('success')), 'met', 'not met')}</td>"
        f"<td>{text(result.get('meaning') or result.get('type'))}<br>"
        f"<code class=soft>{text(result.get('type'))}</code></td>"
        f"<td class=num>{text(number(result.get('observed')))}</td></tr>"
        for result in results
    )
    return (
        "<section><h2>What was expected</h2><div class=wide><table><thead><tr><th></th><th>Expectation</th>"
        f"<th class=num>Observed</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _confusion(confusion: Mapping[str, Any]) -> str:
    """Draw the confusion matrix: rows are the right class, columns the answer; hits blue, mistakes red."""
    classes, counts = confusion.get("classes") or [], confusion.get("counts") or []
    if len(classes) < 2:
        return ""
    cell, left, top = 34, 46, 40
    size = cell * len(classes)
    drawn = [
        f'<text class="soft mid" x="{left + size / 2}" y="12">answered</text>',
        f'<text class="soft mid" transform="translate(11 {top + size / 2}) rotate(-90)">right answer</text>',
    ]
    for i, name in enumerate(classes):
        middle = i * cell + cell / 2
        drawn.append(f'<text x="{left + middle}" y="{top - 8}" class="mid">{text(name)}</text>')
        drawn.append(f'<text x="{left - 8}" y="{top + middle + 4}" class="end">{text(name)}</text>')
        total = sum(counts[i]) or 1
        drawn += [
            _cell(left + j * cell, top + i * cell, cell, count, count / total, hit=i == j)
            for j, count in enumerate(counts[i])
        ]
    picture = (
        f'<svg class="confusion" viewBox="0 0 {left + size + 2} {top + size + 2}" role="img" '
        f'aria-label="Confusion matrix of {len(classes)} classes">{"".join(drawn)}</svg>'
    )
    return f"<section><h2>Which classes are taken for which</h2>{picture}</section>"


def _cell(x: int, y: int, size: int, count: int, share: float, *, hit: bool) -> str:
    # Mistakes are rare, so their colour rises faster: one in ten is already plain to see.
    strength = (0.12 + 0.6 * share) if hit else min(0.15 + 3.0 * share, 0.85)
    place = f'class="cell" x="{x + 1}" y="{y + 1}" width="{size - 2}" height="{size - 2}"'
    if not count:
        return f"<rect {place}/>"
    fill = f"rgba(var({'--heat' if hit else '--miss'}), {strength:.2f})"
    number = f'<text class="mid" x="{x + size / 2}" y="{y + size / 2 + 4}">{int(count)}</text>'
    return f'<rect {place} style="fill: {fill}"/>{number}'


def _side_by_side(rows: Sequence[Mapping[str, Any]], stable: object, remedy: object) -> str:
    """Draw the tensors that clients expect beside those that the candidate has."""
    if not rows:
        return ""
    drawn = "".join(
        f"<tr><td>{_verdict(bool(row.get('same')), 'same', 'differs')}</td><td>{text(row.get('kind'))}</td>"
        f"<td><code>{text(row.get('name'))}</code></td>{_tensor(row.get('stable'))}{_tensor(row.get('candidate'))}</tr>"
        for row in rows
    )
    return (
        "<section><h2>Expected and found tensors</h2><p class=soft>Clients do not change with the model, so each "
        "input and output must be as it is now.</p><div class=wide><table><thead>"
        f"<tr><th></th><th></th><th></th><th colspan=2>Expected (version {text(stable)})</th>"
        "<th colspan=2>Found (the candidate)</th></tr>"
        "<tr><th></th><th></th><th>Tensor</th><th>Datatype</th><th>Shape</th><th>Datatype</th><th>Shape</th></tr>"
        f"</thead><tbody>{drawn}</tbody></table></div>"
        + (f"<p>{text(remedy)}</p>" if remedy else "")
        + "</section>"
    )


def _tensor(side: Mapping[str, Any] | None) -> str:
    if side is None:
        return "<td colspan=2 class=soft>not there</td>"
    optional = " <span class=soft>optional</span>" if side.get("optional") else ""
    return f"<td>{text(side.get('datatype'))}{optional}</td><td>{text(list(side.get('shape') or ()))}</td>"


def _signature(signature: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{kind}</td><td><code>{text(tensor.get('name'))}</code></td><td>{text(tensor.get('datatype'))}</td>"
        f"<td>{text(list(tensor.get('shape') or ()))}</td></tr>"
        for kind, tensors in (("input", signature.get("inputs")), ("output", signature.get("outputs")))
        for tensor in tensors or ()
    )
    if not rows:
        return ""
    return (
        "<section><h2>Signature</h2><div class=wide><table><thead><tr><th></th><th>Tensor</th>"
        f"<th>Datatype</th><th>Shape</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _verdict(good: bool, yes: str, no: str) -> str:
    # The sign says it too, for readers who do not see the colour.
    mood, words = ("good", f"✓ {yes}") if good else ("bad", f"✗ {no}")
    return f"<span class='verdict {mood}'>{words}</span>"
