// Once an answer was taken, its question disappears at once instead of with the next refresh.
"use strict";

document.addEventListener("slipway:acted", async () => {
  const answer = await fetch(window.location.href, { headers: { "slipway-poll": "1" } });
  if (answer.ok) replace("questions", await answer.text());
});
