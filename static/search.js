"use strict";
/* The search page answers while somebody types; without this script Enter asks. */
(() => {
  const box = document.querySelector("form.ask #q");
  const found = document.querySelector("#found");
  if (!box || !found) return;
  const say = document.querySelector("#found-say");
  // A pause in typing; shorter ones would ask for words that are still being written.
  const PAUSE_MS = 250;
  let [asked, timer, request] = [box.value.trim(), 0, null];

  const fold = (before) => {
    const facets = found.querySelector("details.facets");
    if (!facets) return;
    // As the reader left them; where they stand over the list they begin folded.
    facets.open = before ? before.open : !matchMedia("(max-width: 1000px)").matches;
    facets.dataset.settled = "";
  };
  const show = (text, address) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const before = found.querySelector("details.facets");
    found.replaceChildren(...page.querySelector("#found").childNodes);
    fold(before);
    document.querySelector("h1").textContent = page.querySelector("h1").textContent;
    document.title = page.title;
    history.replaceState(null, "", address);
    // What leads on from here takes the new words with it.
    for (const [at, name] of [["[data-language]", "href"], ["[name=back]", "value"]]) {
      document.querySelector(at).setAttribute(name, page.querySelector(at).getAttribute(name));
    }
    const told = found.querySelector(".filters .bar, .empty");
    say.textContent = told ? told.textContent.trim().replace(/\s+/g, " ") : "";
  };
  const ask = async () => {
    const words = box.value.trim();
    if (words === asked) return;
    asked = words;
    if (request) request.abort();
    request = new AbortController();
    const address = words ? `?q=${encodeURIComponent(words)}` : "?";
    try {
      const response = await fetch(address, { signal: request.signal });
      // An id leads to its record: by Enter, not in the middle of typing.
      if (response.ok && !response.redirected) show(await response.text(), address);
    } catch {
      // Given up for newer words, or offline: Enter still asks.
    }
  };
  const wait = (event) => {
    if (event.isComposing) return;
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  };
  box.addEventListener("input", wait);
  box.addEventListener("compositionend", wait);
})();
