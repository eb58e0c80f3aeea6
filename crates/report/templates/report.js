
// SPDX-License-Identifier: MIT OR Apache-2.0
// Figures under the pointer, rows on and off, zoom of the time axis. Everything that it shows is on the page
// already, as text or as the numbers that a line was drawn from; it asks no network and keeps nothing.
(() => {
"use strict";
const all = (what, of = document) => [...of.querySelectorAll(what)];
const NS = "http://www.w3.org/2000/svg";
const WIDE = 4000;

// Digits in groups of three, as everywhere on the page.
const grouped = text => {
  const [whole, part] = String(text).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? "." + part : "");
};
// A figure in microseconds with the digits that matter.
const figure = us => us < 9.995 ? us.toFixed(2) : us < 99.95 ? us.toFixed(1) : grouped(us.toFixed(0));
const signed = us => (us < 0 ? "−" : "+") + figure(Math.abs(us));
const seconds = s => s < 600 ? `${+s.toFixed(2)} s` : s < 7200 ? `${+(s / 60).toFixed(2)} min` : `${+(s / 3600).toFixed(2)} h`;

// Rows on and off.
const off = { load: new Set(), cpu: new Set(), run: new Set() };
const shown = element => Object.keys(off).every(of => !off[of].has(element.dataset[of]));
const apply = () => all("[data-load],[data-cpu],[data-run]").forEach(one => one.classList.toggle("off", !shown(one)));
all(".switches").forEach(bar => {
  bar.hidden = all("button", bar).length < 2;
  bar.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    const pressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", pressed);
    off[button.dataset.of][pressed ? "delete" : "add"](button.dataset.is);
    apply();
  });
});
all(".scripted").forEach(one => { one.hidden = false; });

// Tooltips.
const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);

class Plot {
  constructor(frame) {
    const [scale, from, to] = frame.dataset.reads.split(",");
    Object.assign(this, { frame, scale, from: +from, to: +to, seen: [0, 100], at: null });
    this.box = frame.querySelector(".box");
    this.figure = frame.closest("figure");
    const group = frame.closest(".grid-of");
    this.group = group;
    this.edges = group.dataset.edges ? group.dataset.edges.split(",").map(Number) : null;
    this.lines = all("path[data-v]", frame).map(path => ({
      path, name: path.dataset.name, values: path.dataset.v.split(","), span: path.dataset.span.split(",").map(Number),
    }));
    this.cursor = document.createElementNS(NS, "path");
    this.cursor.setAttribute("class", "cursor");
    this.box.append(this.cursor);
    frame.setAttribute("tabindex", "0");
    frame.addEventListener("pointermove", event => this.point(this.place(event)));
    frame.addEventListener("pointerleave", () => this.leave());
    frame.addEventListener("blur", () => this.leave());
    frame.addEventListener("keydown", event => this.key(event));
  }
  // Per cent of the whole axis under the pointer.
  place(event) {
    const { left, width } = this.frame.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
    return this.seen[0] + share * (this.seen[1] - this.seen[0]);
  }
  value(at) {
    return this.scale === "log" ? this.from * (this.to / this.from) ** (at / 100) : this.from + (this.to - this.from) * at / 100;
  }
  told(at) {
    const lines = this.lines.filter(line => !line.path.classList.contains("off"));
    if (this.edges) {
      const value = this.value(at);
      let step = this.edges.findIndex(edge => edge > value) - 1;
      if (step < -1) step = this.edges.length - 2;
      step = Math.max(0, step);
      const name = this.scale === "log" ? figure : us => us === 0 ? "0" : signed(us);
      const head = `${name(this.edges[step])} to ${name(this.edges[step + 1])} µs`;
      return [head, lines.map(line => [line, `${grouped(line.values[step] || 0)} ${line.values[step] === "1" ? "sample" : "samples"}`])];
    }
    const line = lines.find(line => line.span[0] <= at && at < line.span[1]) || lines.find(line => line.span[1] === at);
    if (!line) return null;
    const [from, to] = line.span, count = line.values.length;
    const column = Math.min(count - 1, Math.floor((at - from) / (to - from) * count));
    const edge = n => this.value(from + (to - from) * n / count);
    const value = line.values[column];
    return [`${seconds(edge(column))} to ${seconds(edge(column + 1))}`, [[line, value ? `maximum ${figure(+value)} µs` : "no sample"]]];
  }
  point(at) {
    this.at = at;
    const told = this.told(at);
    if (!told) return this.leave();
    const x = at / 100 * WIDE;
    this.cursor.setAttribute("d", `M${x} 0V1000`);
    const head = document.createElement("b");
    head.textContent = told[0];
    const rows = told[1].map(([line, words]) => {
      const row = document.createElement("span"), swatch = document.createElement("i");
      swatch.style.background = getComputedStyle(line.path).color;
      row.append(swatch, `${line.name}: ${words}`);
      return row;
    });
    tip.replaceChildren(head, ...rows);
    tip.hidden = false;
    const frame = this.frame.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const over = frame.left + (at - this.seen[0]) / (this.seen[1] - this.seen[0]) * frame.width;
    const left = Math.max(4, Math.min(over + 14, innerWidth - box.width - 4));
    const above = frame.top - box.height - 6;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above < 4 ? frame.bottom + 24 : above) + scrollY}px`;
  }
  leave() {
    this.at = null;
    this.cursor.setAttribute("d", "");
    tip.hidden = true;
  }
  key(event) {
    const [from, to] = this.seen, middle = (from + to) / 2;
    const at = this.at ?? middle, step = (to - from) / (event.shiftKey ? 10 : 100);
    const zoomed = (share) => this.zoomable && zoom(this.group, [at - (to - from) * share / 2, at + (to - from) * share / 2]);
    const keys = {
      ArrowLeft: () => this.point(Math.max(from, at - step)), ArrowRight: () => this.point(Math.min(to, at + step)),
      Home: () => this.point(from), End: () => this.point(to),
      "+": () => zoomed(0.5), "=": () => zoomed(0.5), "-": () => zoomed(2),
      Escape: () => { this.leave(); if (this.zoomable) zoom(this.group, [0, 100]); },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}
const plots = all("svg.frame[data-reads]").map(frame => new Plot(frame));

// Zoom of the time axis: all strips of a probe together.
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const tick = (s, step) => s === 0 ? "0" : step >= 3600 ? `${s / 3600} h` : step >= 60 ? `${s / 60} min` : `${+s.toFixed(1)} s`;
const zoom = (group, [from, to]) => {
  from = Math.max(0, from);
  to = Math.min(100, to);
  if (to - from < 0.05) return;
  for (const plot of plots.filter(plot => plot.group === group)) {
    plot.seen = [from, to];
    plot.box.setAttribute("viewBox", `${from / 100 * WIDE} 0 ${(to - from) / 100 * WIDE} 1000`);
    const place = at => (at - from) / (to - from) * 100;
    const bands = all("svg.at", plot.frame);
    bands.forEach((band, n) => {
      const begin = +band.dataset.at, end = n + 1 < bands.length ? +bands[n + 1].dataset.at : 100;
      band.setAttribute("x", `${place(Math.max(begin, from))}%`);
      band.classList.toggle("out", begin >= to || end <= from);
    });
    plot.ticks ??= all("text.across", plot.frame);
    const length = plot.to, least = (to - from) / 100 * length / 6;
    const step = STEPS.find(step => step >= least) ?? 86400 * Math.ceil(least / 86400);
    all("text.zoomed", plot.frame).forEach(one => one.remove());
    const whole = from === 0 && to === 100;
    plot.ticks.forEach(one => one.classList.toggle("out", !whole));
    for (let s = Math.ceil(from / 100 * length / step) * step; !whole && s <= to / 100 * length + 1e-9; s += step) {
      const text = document.createElementNS(NS, "text"), at = place(s / length * 100);
      text.setAttribute("class", "tick zoomed");
      text.setAttribute("x", `${at}%`);
      text.setAttribute("y", "100%");
      text.setAttribute("dy", "15");
      text.setAttribute("text-anchor", at > 97 ? "end" : at < 1 ? "start" : "middle");
      text.textContent = tick(s, step);
      plot.frame.append(text);
    }
  }
};
all("[data-zoom]").forEach(group => {
  let begun = null;
  const mine = plots.filter(plot => plot.group === group);
  for (const plot of mine) {
    plot.zoomable = true;
    const chosen = document.createElementNS(NS, "rect");
    chosen.setAttribute("class", "chosen");
    chosen.setAttribute("height", "1000");
    plot.box.append(chosen);
    plot.frame.classList.add("zooms");
    plot.frame.addEventListener("pointerdown", event => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      begun = plot.place(event);
      plot.frame.setPointerCapture(event.pointerId);
    });
    plot.frame.addEventListener("pointermove", event => {
      if (begun === null) return;
      const [from, to] = [begun, plot.place(event)].sort((a, b) => a - b);
      chosen.setAttribute("x", from / 100 * WIDE);
      chosen.setAttribute("width", (to - from) / 100 * WIDE);
    });
    plot.frame.addEventListener("pointerup", event => {
      if (begun === null) return;
      const ends = [begun, plot.place(event)].sort((a, b) => a - b);
      begun = null;
      chosen.setAttribute("width", 0);
      if (ends[1] - ends[0] > (plot.seen[1] - plot.seen[0]) / 50) zoom(group, ends);
    });
    plot.frame.addEventListener("dblclick", () => zoom(group, [0, 100]));
  }
});
})();
