"use strict";
/* Copy buttons, keys, the follow switch of a live log. Every page works without it. */
(() => {
  const one = (selector, root = document) => root.querySelector(selector);

  // --- copy -------------------------------------------------------------------
  const copy = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return;
    }
    // Plain http on a local network has no clipboard API.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "vh";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  const source = async (button) => {
    if (button.dataset.copyPage !== undefined) return (await fetch(button.href)).text();
    if (button.dataset.copyText !== undefined) return button.dataset.copyText;
    if (button.dataset.copyUrl !== undefined) {
      return new URL(button.dataset.copyUrl, location.href).href;
    }
    return one(button.dataset.copy).textContent;
  };
  const press = async (button) => {
    await copy(await source(button));
    const label = button.firstChild;
    const before = label.textContent;
    if (button.dataset.done !== undefined && !button.hasAttribute("aria-live")) {
      button.setAttribute("aria-live", "polite");
      label.textContent = button.dataset.done;
      setTimeout(() => {
        label.textContent = before;
        button.removeAttribute("aria-live");
      }, 1600);
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy], button[data-copy-text], [data-copy-url], [data-copy-page]");
    if (!button) return;
    // What is a link leads there without a script.
    event.preventDefault();
    press(button);
  });
  const reveal = (root) => {
    for (const node of root.querySelectorAll("[data-needs-js]")) node.hidden = false;
  };

  // --- language: remember the reader's choice for neutral addresses ---------------
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-language]");
    if (link) {
      document.cookie = `django_language=${link.dataset.language};path=/;max-age=31536000;samesite=lax`;
    }
  });

  // --- colours: at once, and kept for what the server sends next -------------------
  document.addEventListener("submit", (event) => {
    if (!event.submitter || !event.submitter.closest("[data-theme-form]")) return;
    event.preventDefault();
    const chosen = event.submitter.value;
    const age = chosen ? 31536000 : 0;
    document.cookie = `dtn_theme=${chosen};path=/;max-age=${age};samesite=lax`;
    document.documentElement.toggleAttribute("data-theme", Boolean(chosen));
    if (chosen) document.documentElement.dataset.theme = chosen;
    one("meta[name=color-scheme]").content = chosen || "light dark";
    for (const button of document.querySelectorAll("[data-theme-form] button")) {
      button.setAttribute("aria-pressed", button === event.submitter);
    }
  });

  // --- live log ------------------------------------------------------------------
  const follow = () => one("#follow");
  const toEnd = () => {
    const log = one("#log-lines");
    if (log && follow() && follow().checked) log.scrollTop = log.scrollHeight;
  };
  // An address with #L42 wants that line, not the end, also where it is yet to come.
  let awaited = "";
  const toLine = () => {
    const line = awaited && document.getElementById(awaited);
    if (!line) return;
    awaited = "";
    line.scrollIntoView({ block: "center" });
  };
  const wantLine = () => {
    if (!/^#L\d+$/.test(location.hash)) return;
    awaited = location.hash.slice(1);
    if (follow()) follow().checked = false;
    toLine();
  };
  window.addEventListener("hashchange", wantLine);
  const say = () => {
    const state = one("[data-say]");
    const place = one("#run-say");
    if (state && place && place.textContent !== state.dataset.say) {
      place.textContent = state.dataset.say;
    }
  };
  document.addEventListener("scroll", (event) => {
    const log = event.target;
    if (log.id !== "log-lines" || !follow()) return;
    follow().checked = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  }, true);
  document.addEventListener("change", (event) => {
    if (event.target.id === "follow") toEnd();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    reveal(event.target.parentNode || document);
    toEnd();
    toLine();
    say();
  });

  // The button that was pressed is off now: not to the top of the page.
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.target.closest("form") && document.activeElement === document.body) {
      const log = one("#log-lines");
      if (log) log.focus();
    }
  });

  // Refused: the same request once more, as a page that says why.
  document.addEventListener("htmx:responseError", (event) => {
    const form = event.target.closest("form");
    if (form) form.submit();
  });

  // --- seconds that go on between two answers of the server -------------------------
  // data-tick is the number of decimals.
  const tick = () => {
    const now = performance.now() / 1000;
    for (const node of document.querySelectorAll("[data-tick]")) {
      node.began ??= now - Number(node.textContent);
      node.textContent = (now - node.began).toFixed(Number(node.dataset.tick));
    }
  };
  if (one("[data-tick]")) setInterval(tick, 100);

  // --- a choice that is its own button ---------------------------------------------
  for (const control of document.querySelectorAll("select[data-submit]")) {
    control.addEventListener("change", () => control.form.requestSubmit());
  }

  // --- keys -----------------------------------------------------------------------
  const stored = () => {
    try { return localStorage.getItem("keys"); } catch { return null; }
  };
  const enabled = () => stored() !== "off";
  const go = (selector) => {
    const target = one(selector);
    if (target) target.click();
  };
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    next.focus();
  };
  const actions = {
    "/": () => { const box = one("#q") || one("#log"); if (box) box.focus(); },
    j: () => step(1),
    k: () => step(-1),
    r: () => go("#run-button"),
    l: () => { const log = one("#log-lines"); if (log) { log.scrollIntoView(); log.focus(); } },
    y: () => go("#permalink"),
    m: () => go("#nav-matrix"),
    "?": () => { const help = one("#keys"); if (help && !help.open) help.showModal(); },
  };
  // After g.
  const places = {
    z: '[data-language="zh-hans"]',
    e: '[data-language="en"]',
    h: "#nav-front",
    r: "#nav-records",
    m: "#nav-matrix",
    c: "#nav-claims",
    b: "#nav-builds",
  };
  let pending = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog[open], [popover]:popover-open");
    if (typing || (!enabled() && event.key !== "?")) return;
    if (pending === "g" && places[event.key]) {
      pending = "";
      go(places[event.key]);
      return;
    }
    pending = event.key;
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.id !== "keys-on") return;
    try { localStorage.setItem("keys", event.target.checked ? "on" : "off"); } catch { /* private mode */ }
  });
  const opener = one("#keys-open");
  if (opener) opener.addEventListener("click", () => actions["?"]());
  const box = one("#keys-on");
  if (box) box.checked = enabled();

  // Where the filters stand over the list they start folded, unless one is set.
  const facets = one("details.facets");
  if (facets) {
    const folds = matchMedia("(max-width: 1000px)").matches && !one("input:checked", facets);
    if (folds) facets.open = false;
    facets.dataset.settled = "";
  }

  reveal(document);
  wantLine();
  toEnd();
})();
