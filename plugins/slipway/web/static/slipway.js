// What every page does: it knows when Airflow shows it in a frame, and keeps its parts fresh.
//
// A part that is to be kept fresh says so: <section id="…" data-refresh-s="5">. The page is asked for again, and the
// part that came replaces the part that is here, unless nothing has changed or somebody is typing in it. Without this
// script a page is complete; it is as old as it was when it was asked for.
"use strict";

if (window.top !== window) document.documentElement.classList.add("embedded");

const refreshing = new Map();

function keepFresh(part) {
  const id = part.id;
  const periodMs = Number(part.dataset.refreshS) * 1000;
  let failures = 0;
  let timer = 0;

  async function refresh() {
    window.clearTimeout(timer);
    if (!document.hidden && !isInUse(document.getElementById(id))) {
      try {
        const asked = window.location.href;
        const answer = await fetch(asked, { headers: { "slipway-poll": "1" } });
        if (answer.status === 401) return window.location.reload(); // leads to the login
        if (!answer.ok) throw new Error(`answered ${answer.status}`);
        const text = await answer.text();
        // Another search may have begun meanwhile: its answer is on its way.
        if (asked === window.location.href) replace(id, text);
        failures = 0;
      } catch {
        failures += 1;
      }
      setStale(failures > 0);
    }
    window.clearTimeout(timer);
    timer = window.setTimeout(refresh, periodMs * Math.min(8, 2 ** failures));
  }
  timer = window.setTimeout(refresh, periodMs);
  refreshing.set(id, refresh);
}

function isInUse(here) {
  return here.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
    || here.querySelector("dialog[open], :popover-open") !== null;
}

function replace(id, text) {
  const came = new DOMParser().parseFromString(text, "text/html").getElementById(id);
  const here = document.getElementById(id);
  if (came === null || came.isEqualNode(here)) return;
  for (const one of here.querySelectorAll("details[open][id]")) {
    const same = came.querySelector(`#${CSS.escape(one.id)}`);
    if (same !== null) same.open = true;
  }
  const scrolled = [...here.querySelectorAll(".wide")].map((one) => one.scrollLeft);
  const focused = here.contains(document.activeElement) ? document.activeElement : null;
  here.replaceWith(came);
  [...came.querySelectorAll(".wide")].forEach((one, place) => { one.scrollLeft = scrolled[place] ?? 0; });
  if (focused !== null) sameElement(focused, came)?.focus({ preventScroll: true });
  document.dispatchEvent(new CustomEvent("slipway:fresh", { detail: { id } }));
}

// What somebody had come to by keyboard: the element of that id, or the link to the same place.
function sameElement(element, within) {
  if (element.id) return within.querySelector(`#${CSS.escape(element.id)}`);
  const place = element.getAttribute("href");
  return place && within.querySelector(`a[href="${CSS.escape(place)}"]`);
}

function setStale(isStale) {
  for (const one of document.querySelectorAll(".stale")) one.hidden = !isStale;
}

for (const part of document.querySelectorAll("[data-refresh-s][id]")) keepFresh(part);
document.addEventListener("slipway:refresh", (event) => refreshing.get(event.detail.id)?.());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const refresh of refreshing.values()) refresh();
});
