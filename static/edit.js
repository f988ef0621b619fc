"use strict";
/* Drafts of a record: what is typed stays in this browser until it is saved, and is offered
   back after a reload. The form works without it. */
(() => {
  const form = document.querySelector("form[data-draft]");
  if (!form) return;
  const key = `draft:${form.dataset.draft}`;
  const stored = () => {
    try { return JSON.parse(localStorage.getItem(key)); } catch { return null; }
  };
  const store = (draft) => {
    try { localStorage.setItem(key, JSON.stringify(draft)); } catch { /* no room, or private */ }
  };
  const drop = () => {
    try { localStorage.removeItem(key); } catch { /* private mode */ }
  };
  const fields = () => [...new FormData(form)].filter(([name]) => name !== "csrfmiddlewaretoken");
  const opened = form.elements.opened.value;
  const before = JSON.stringify(fields());

  const keep = (isSent) => store({ opened, isSent, at: Date.now(), fields: fields() });
  form.addEventListener("input", () => keep(false));
  form.addEventListener("submit", (event) => {
    if (event.submitter && event.submitter.formTarget === "_blank") return;
    keep(!(event.submitter && event.submitter.name));
  });

  // The whole form travels once more: rows that were added are made by the server.
  const putBack = (draft) => {
    const again = document.createElement("form");
    [again.method, again.action, again.hidden] = ["post", form.action, true];
    const all = [...draft.fields, ["draft", "1"],
      ["csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value]];
    for (const [name, value] of all) {
      const field = document.createElement("textarea");
      [field.name, field.value] = [name, value];
      again.append(field);
    }
    document.body.append(again);
    again.submit();
  };

  const draft = stored();
  // What was sent and made a revision is no draft any more.
  if (draft && draft.isSent && draft.opened !== opened) {
    drop();
    return;
  }
  if (!draft || JSON.stringify(draft.fields) === before) return;
  const notice = document.querySelector("#draft");
  const text = notice.querySelector("[data-text]");
  const when = new Date(draft.at).toLocaleString(document.documentElement.lang);
  text.textContent = text.dataset.text.replace("{when}", when);
  notice.hidden = false;
  document.querySelector("#draft-back").addEventListener("click", () => putBack(draft));
  document.querySelector("#draft-away").addEventListener("click", () => {
    drop();
    notice.hidden = true;
  });
})();
