"use strict";
/* The box of the front page: Ctrl+Enter sends it; a log of any size that is dropped on it,
   chosen or pasted is read here, and only its telling lines are sent: its ends, and of its
   middle one line of each kind that complains (kb/search/reading/lines.py does the same).
   Without this script the file itself is sent. */
(() => {
  const box = document.querySelector("#log");
  if (!box) return;
  const [form, note] = [box.form, document.querySelector("#paste-note")];
  const picker = form.elements.file;
  const button = form.querySelector(".paste-foot button");
  const [HEAD, TAIL, MIDDLE, CHARS] = [1000, 3000, 2000, 4000];
  const COMPLAINS = /error|warning|exception|unsupported|overflow|underflow|non-?finite|mismatch|traceback|assert|fail|nan(?![a-z])|inf(?<![a-z]inf)(?![a-z])|gb\d{4}|_status_|xid|misaligned|illegal|does not|not require|溢出|不匹配|失败|断言/;
  const NOT_LETTERS = /[\P{L}]+/gu;
  const bytes = (text) => new TextEncoder().encode(text).length;
  const room = () => Number(box.dataset.maxBytes) - bytes(form.elements.env.value);

  class TellingLines {
    constructor() {
      [this.head, this.middle, this.tail] = [[], [], []];
      [this.kinds, this.count] = [new Set(), 0];
    }

    add(line) {
      this.count += 1;
      const cut = line.slice(0, CHARS);
      if (this.count <= HEAD) {
        this.head.push(cut);
        return;
      }
      const place = (this.count - HEAD - 1) % TAIL;
      if (this.tail[place] !== undefined) this.consider(this.tail[place]);
      this.tail[place] = cut;
    }

    consider(line) {
      if (this.middle.length >= MIDDLE || !COMPLAINS.test(line.toLowerCase())) return;
      const kind = line.replace(NOT_LETTERS, "").slice(0, 400);
      if (this.kinds.has(kind)) return;
      this.kinds.add(kind);
      this.middle.push(line);
    }

    lines() {
      const next = Math.max(0, this.count - HEAD) % TAIL;
      if (this.tail.length < TAIL) return [...this.head, ...this.tail];
      const tail = [...this.tail.slice(next), ...this.tail.slice(0, next)];
      // No more than the server reads of a paste: the end makes room for what complains.
      return [...this.head, ...this.middle, ...tail.slice(this.middle.length)];
    }

    // Where even these are too many, all are cut alike.
    text(most) {
      const lines = this.lines();
      let text = lines.join("\n");
      for (let chars = CHARS; bytes(text) > most && chars > 1;) {
        chars = Math.floor(chars / 2);
        text = lines.map((line) => line.slice(0, chars)).join("\n");
      }
      return text;
    }
  }

  const say = (name, values) => {
    note.textContent = Object.entries(values).reduce(
      (text, [key, value]) => text.replace(`{${key}}`, value.toLocaleString(document.documentElement.lang)),
      note.dataset[name],
    );
    note.hidden = false;
  };

  const encoding = async (file) => {
    const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    if (first === 0xff && second === 0xfe) return "utf-16le";
    return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
  };

  const read = async (file) => {
    const decoder = new TextDecoderStream(await encoding(file));
    const reader = file.stream().pipeThrough(decoder).getReader();
    const telling = new TellingLines();
    const small = file.size <= room();
    let [rest, whole, done, tenths] = ["", "", 0, -1];
    for (;;) {
      const { done: over, value } = await reader.read();
      if (over) break;
      done += value.length;
      // Of a file of gigabytes one wants to see that something happens, and hear it now and then.
      if (!small && Math.floor((10 * done) / file.size) > tenths) {
        tenths = Math.floor((10 * done) / file.size);
        say("reading", { name: file.name, percent: 10 * tenths });
      }
      if (small) whole += value;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      // One endless line is cut, not kept.
      if (rest.length > 65536) rest = rest.slice(0, CHARS) + rest.slice(-CHARS);
      lines.forEach((line) => telling.add(line));
    }
    if (rest) telling.add(rest);
    box.value = small ? whole : telling.text(room());
    const kept = small ? telling.count : telling.lines().length;
    form.elements.part.value = small ? "" : "1";
    say(small ? "whole" : "part", { name: file.name, kept, lines: telling.count });
    box.focus();
  };

  // What is in the box is not sent while it is being read; a folder cannot be.
  const take = async (file) => {
    button.disabled = true;
    try {
      await read(file);
    } catch {
      say("unreadable", { name: file.name });
    } finally {
      button.disabled = false;
    }
  };

  // Anywhere on the page: beside the box the browser would leave for the file.
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    form.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    form.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    take(file);
  });
  picker.addEventListener("change", async () => {
    const [file] = picker.files;
    if (!file) return;
    await take(file);
    picker.value = "";
  });
  form.addEventListener("submit", () => {
    if (bytes(box.value) <= room()) return;
    const telling = new TellingLines();
    box.value.split("\n").forEach((line) => telling.add(line));
    box.value = telling.text(room());
    form.elements.part.value = "1";
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    event.preventDefault();
    if (!button.disabled) form.requestSubmit();
  });
})();
