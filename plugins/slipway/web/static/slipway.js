// What every page does: it knows when Airflow shows it in a frame, and keeps its parts fresh.
//
// A part that is to be kept fresh says so: <section id="…" data-refresh-s="5">. The page is asked for again, and the
// part that came replaces the part that is here, unless nothing has changed or somebody is typing in it. Without this
// script a page is complete; it is as old as it was when it was asked for.
"use strict";

if (window.top !== window) document.documentElement.classList.add("embedded");

function keepFresh(part) {
  const periodMs = Number(part.dataset.refreshS) * 1000;
  let failures = 0;

  async function refresh() {
    if (!document.hidden && !isInUse(document.getElementById(part.id))) {
      try {
        const answer = await fetch(window.location.href, { headers: { "slipway-poll": "1" } });
        if (answer.status === 401) return window.location.reload(); // leads to the login
        if (!answer.ok) throw new Error(`answered ${answer.status}`);
        replace(part.id, await answer.text());
        failures = 0;
        setStale(false);
      } catch {
        failures += 1;
        setStale(true);
      }
    }
    window.setTimeout(refresh, periodMs * Math.min(8, 2 ** failures));
  }
  window.setTimeout(refresh, periodMs);
}

function isInUse(here) {
  return here.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
    || here.querySelector("dialog[open]") !== null;
}

function replace(id, text) {
  const came = new DOMParser().parseFromString(text, "text/html").getElementById(id);
  const here = document.getElementById(id);
  if (came === null || came.isEqualNode(here)) return;
  const open = new Set([...here.querySelectorAll("details[open][id]")].map((one) => one.id));
  const focused = here.contains(document.activeElement) ? document.activeElement.id : "";
  here.replaceWith(came);
  for (const one of came.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  document.dispatchEvent(new CustomEvent("slipway:fresh", { detail: { id } }));
}

function setStale(isStale) {
  for (const one of document.querySelectorAll(".stale")) one.hidden = !isStale;
}

for (const part of document.querySelectorAll("[data-refresh-s][id]")) keepFresh(part);
