// Forms of acts: a form opens as a dialog, is sent without leaving the page, and the page says what became of it.
//
// Without this script the browser opens the same form as a popover and leads to the page of the run.
"use strict";

const POLL = { "slipway-poll": "1", Accept: "application/json" };
const OUTCOME_EVERY_MS = 1000;
const OUTCOME_FOR_MS = 180000;

document.addEventListener("click", (event) => {
  if (event.target.closest('[aria-disabled="true"]') !== null) {
    event.preventDefault();
    return;
  }
  const opener = event.target.closest("button[popovertarget]");
  if (opener !== null && !opener.hasAttribute("data-close")) {
    event.preventDefault();
    openDialog(document.getElementById(opener.getAttribute("popovertarget")));
    return;
  }
  const closer = event.target.closest("[data-close]");
  if (closer !== null) {
    event.preventDefault();
    closer.closest("dialog").close();
  }
});

function openDialog(dialog) {
  dialog.removeAttribute("popover"); // a modal one keeps the keyboard within it
  dialog.showModal();
  const landed = dialog.querySelector("[data-landed]");
  if (landed !== null) offerLanded(landed);
}

// Put what has landed in the place of the field for a number, and say what is live and what is under way.
async function offerLanded(place) {
  const message = place.querySelector("[data-landed-message]");
  message.textContent = "Looking for uploads…";
  try {
    const answer = await fetch(place.dataset.landed, { headers: POLL });
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    const found = await answer.json();
    const unusable = found.unusable.filter((one) => one.blocks).map((one) => one.version);
    const ready = found.versions.filter((one) => one.is_complete !== false && !unusable.includes(one.version));
    if (ready.length > 0) offer(place, ready);
    message.textContent = [
      found.live_version === null ? "Nothing is live." : `Version ${found.live_version} is live.`,
      found.under_way === null ? "" : `Version ${found.under_way} is under way; this release waits until it ends.`,
      ready.length === 0 ? "There are no uploads below incoming/." : "",
      ...found.unusable.map((one) => `${one.version === null ? one.place : `Version ${one.version}`} landed, ${one.blocks ? "unusable" : "not started"}: ${one.reason}.`),
      found.is_whole ? "" : "There are more uploads than are listed here.",
    ].filter(Boolean).join(" ");
  } catch {
    message.textContent = "The uploads could not be read. Type the version.";
  }
}

function offer(place, versions) {
  const old = place.querySelector('[name="version"]');
  const select = document.createElement("select");
  select.id = old.id;
  select.name = "version";
  select.required = true;
  for (const one of versions) {
    const option = new Option(`version ${one.version}${standing(one)}`, String(one.version));
    option.disabled = one.is_rejected;
    select.add(option);
  }
  const fresh = versions.find((one) => one.outcome === null && !one.is_rejected);
  if (fresh !== undefined) select.value = String(fresh.version);
  old.replaceWith(select);
}

function standing(one) {
  if (one.is_rejected) return ": rejected";
  if (one.outcome === "open") return ": under way";
  if (one.standing !== "") return `: ${one.standing.replace("_", " ")} before`;
  return one.outcome === null ? ": new" : `: ${one.outcome.replace("_", " ")}`;
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-act]");
  if (form === null) return;
  event.preventDefault();
  send(form);
});

async function send(form) {
  const button = form.querySelector('button[type="submit"]');
  if (button.disabled) return; // the second click of two
  const wrong = form.querySelector(".act-error");
  button.disabled = true;
  wrong.hidden = true;
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
      headers: POLL,
    });
    if (answer.status === 401) return window.location.reload();
    const reply = await answer.json();
    if (!answer.ok) throw new Error([reply.detail, reply.remedy].filter(Boolean).join(" "));
    const dialog = form.closest("dialog");
    if (dialog !== null) dialog.close();
    follow(reply);
    document.dispatchEvent(new CustomEvent("slipway:acted"));
  } catch (error) {
    wrong.textContent = error instanceof TypeError ? "The server is not answering, so it is unknown whether this was done. Try again." : error.message;
    wrong.hidden = false;
  } finally {
    button.disabled = false;
  }
}

async function follow(done) {
  tell(done.message, done.page, "busy");
  const until = Date.now() + OUTCOME_FOR_MS;
  while (Date.now() < until) {
    await new Promise((resolve) => window.setTimeout(resolve, OUTCOME_EVERY_MS));
    try {
      const answer = await fetch(done.page, { headers: POLL });
      if (!answer.ok) continue;
      const outcome = await answer.json();
      if (!outcome.is_over) continue;
      const isGood = outcome.state === "success";
      tell(outcome.message || (isGood ? `Done: ${outcome.run_id}` : `Failed: ${outcome.run_id}`), done.page, isGood ? "good" : "bad");
      document.dispatchEvent(new CustomEvent("slipway:acted"));
      return;
    } catch {
      // the next try says more
    }
  }
}

function tell(text, page, kind) {
  const place = document.getElementById("message");
  const link = document.createElement("a");
  link.href = page;
  link.textContent = "Its run";
  place.replaceChildren(document.createTextNode(`${text} `), link);
  place.className = `note message ${kind}`;
  place.hidden = false;
}
