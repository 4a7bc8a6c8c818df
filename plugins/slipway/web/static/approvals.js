// Keeps the inbox fresh: it is put in place anew only where a question came or went, so that a report that somebody reads
// within it stays as it is. Once an answer was taken, its question disappears at once.
"use strict";

const INBOX_EVERY_MS = 5000;
const INBOX_LIMIT_MS = 10000;

function questionsOf(root) {
  return [...root.querySelectorAll("[data-question]")].map((one) => one.dataset.question).join("\n");
}

async function lookForQuestions() {
  const inbox = document.getElementById("questions");
  if (document.hidden || isInUse(inbox)) return;
  try {
    const answer = await fetch(window.location.href, {
      headers: { "slipway-poll": "1" },
      signal: AbortSignal.timeout(INBOX_LIMIT_MS),
    });
    if (answer.status === 401) return window.location.reload(); // leads to the login
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    const text = await answer.text();
    const came = new DOMParser().parseFromString(text, "text/html");
    if (questionsOf(came) !== questionsOf(inbox)) {
      replace("questions", text);
      document.title = came.title;
    }
    setStale(false);
  } catch {
    setStale(true);
  }
}

document.addEventListener("slipway:acted", lookForQuestions);
window.setInterval(lookForQuestions, INBOX_EVERY_MS);
