"use strict";
// What the page of `toppo board` is drawn with: elements, numbers as people read them, and charts.  All text is set as text.

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const charts = new Map(), hidden = new Set();

// Elements

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Numbers as people read them

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-3 && size > 0)) return value.toExponential(2);
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

function tick(value, step) {
  const size = Math.max(Math.abs(value), Math.abs(step));
  if (size >= 1e15 || size < 1e-4) return value === 0 ? "0" : value.toExponential(1);
  const [unit, sign] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return parseFloat((value / unit).toFixed(digits)) + (value === 0 ? "" : sign);
}

function clock(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const all = Math.round(seconds), days = Math.floor(all / 86400), hours = Math.floor(all / 3600) % 24;
  const two = (value) => String(value).padStart(2, "0");
  if (days) return `${days.toLocaleString("en")} d ${hours} h`;
  const minutes = Math.floor(all / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
const share = (run) => Math.min(1, (run.steps || 0) / (run.total || 1));
const steps = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

// Charts

function smoothed(points) {
  const width = Math.max(1, Math.round((points.length * Number($("smooth").value)) / 100));
  return points.map(([x], i) => {
    const part = points.slice(Math.max(0, i - width + 1), i + 1);
    return [x, mean(part.map((point) => point[1]))];
  });
}

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((part) => part >= raw) || raw;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9 && found.length < 20; value += step) found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return { step, values: found };
}

function lines(panel) {
  const found = [];
  for (const arm of panel.arms.filter((one) => !hidden.has(one.arm))) {
    const runs = arm.runs.filter((run) => run.points.length);
    const several = arm.mean.length > 0;
    for (const run of runs) {
      found.push({ arm, points: several ? smoothed(run.points) : run.points, faint: true });
      if (!several) found.push({ arm, points: smoothed(run.points), faint: false });
      found.push({ arm, points: run.tests, rings: true });
    }
    if (several) found.push({ arm, points: smoothed(arm.mean), faint: false });
  }
  return found.filter((line) => line.points.length);
}

function chartOf(env) {
  const chart = { title: make("h2"), legend: make("div", { class: "legend" }), plot: make("div", { class: "plot" }), tip: make("div", { class: "tip", hidden: "" }), at: null, panel: null };
  chart.box = make("div", { class: "card" }, chart.title, chart.legend, chart.plot);
  say(chart.title, env);
  chart.plot.addEventListener("pointermove", (event) => { chart.at = event.clientX - chart.plot.getBoundingClientRect().left; redraw(chart); });
  chart.plot.addEventListener("pointerleave", () => { chart.at = null; redraw(chart); });
  new ResizeObserver(() => redraw(chart)).observe(chart.plot);
  return chart;
}

function redraw(chart) {
  const width = Math.max(200, Math.round(chart.plot.clientWidth)), height = charts.size === 1 ? 320 : 240;
  const area = { left: 50, right: width - 14, top: 10, bottom: height - 26 };
  const all = lines(chart.panel), svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${chart.metric} on ${chart.panel.env}` });
  const points = all.flatMap((line) => line.points);
  if (!points.length) {
    svg.append(draw("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "empty" }, chart.metric === "return" ? "no episode has ended yet" : "nothing logged yet"));
    return place(chart, svg);
  }
  let [low, high] = [points.reduce((least, p) => Math.min(least, p[1]), Infinity), points.reduce((most, p) => Math.max(most, p[1]), -Infinity)];
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1, right = points.reduce((most, p) => Math.max(most, p[0]), 1);
  [low, high] = [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
  const x = (value) => area.left + (value / right) * (area.right - area.left);
  const y = (value) => area.bottom - ((value - low) / (high - low)) * (area.bottom - area.top);
  axes(svg, area, ticks(low, high, 5), ticks(0, right, width < 420 ? 3 : 6), x, y);
  for (const line of all) {
    if (line.rings) line.points.forEach((p) => svg.append(draw("circle", { cx: x(p[0]), cy: y(p[1]), r: 3.6, class: "ring", stroke: line.arm.colour })));
    else svg.append(draw("path", { d: line.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("") + "h0.1", stroke: line.arm.colour, "stroke-width": line.faint ? 1 : 2.2, "stroke-opacity": line.faint ? 0.3 : 1 }));
  }
  place(chart, svg);
  if (chart.at !== null) cross(chart, svg, all.filter((line) => !line.faint && !line.rings), area, x, y, right);
}

function axes(svg, area, up, along, x, y) {
  for (const value of up.values) svg.append(draw("line", { x1: area.left, x2: area.right, y1: y(value), y2: y(value), class: "grid" }), draw("text", { x: area.left - 8, y: y(value) + 4, "text-anchor": "end" }, tick(value, up.step)));
  svg.append(draw("line", { x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom, class: "axis" }));
  for (const value of along.values) svg.append(draw("text", { x: x(value), y: area.bottom + 18, "text-anchor": "middle" }, tick(value, along.step)));
}

function place(chart, svg) {
  chart.tip.hidden = true;
  chart.plot.replaceChildren(svg, chart.tip);
}

function cross(chart, svg, bold, area, x, y, right) {
  const at = Math.min(area.right, Math.max(area.left, chart.at)), value = ((at - area.left) / (area.right - area.left)) * right;
  svg.append(draw("line", { x1: at, x2: at, y1: area.top, y2: area.bottom, class: "cross" }));
  const found = bold.map((line) => ({ line, point: line.points.reduce((best, p) => (Math.abs(p[0] - value) < Math.abs(best[0] - value) ? p : best)) }));
  for (const { line, point } of found) svg.append(draw("circle", { cx: x(point[0]), cy: y(point[1]), r: 3.5, fill: line.arm.colour }));
  const told = found.map(({ line, point }) => make("div", {}, make("span", {}, line.arm.arm), make("b", {}, number(point[1]))));
  chart.tip.replaceChildren(make("div", { class: "soft" }, `${steps(value)} steps`), ...told.slice(0, 12));
  chart.tip.hidden = !found.length;
  const left = at < (area.left + area.right) / 2 ? at + 12 : at - 12 - chart.tip.offsetWidth;
  chart.tip.style.transform = `translate(${left}px, ${area.top}px)`;
}

function legend(chart) {
  const entries = chart.panel.arms.map((arm) => {
    const ends = arm.runs.filter((run) => run.points.length).map((run) => smoothed(run.points)[run.points.length - 1][1]);
    const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(arm.arm)) });
    const key = draw("svg", { width: 14, height: 4 }, draw("rect", { width: 14, height: 4, rx: 2, fill: arm.colour }));
    button.append(key, arm.runs.length > 1 ? `${arm.arm} (${arm.runs.length} runs)` : arm.arm, make("b", {}, ends.length ? number(mean(ends)) : ""));
    button.addEventListener("click", () => {
      hidden.has(arm.arm) ? hidden.delete(arm.arm) : hidden.add(arm.arm);
      charts.forEach((one) => { legend(one); redraw(one); });
    });
    return button;
  });
  chart.legend.replaceChildren(...entries);
}

function panels(all, metric) {
  const known = new Set(all.map((panel) => panel.env));
  for (const [env, chart] of charts) if (!known.has(env)) { chart.box.remove(); charts.delete(env); }
  for (const panel of all) {
    if (!charts.has(panel.env)) {
      charts.set(panel.env, chartOf(panel.env));
      $("panels").append(charts.get(panel.env).box);
    }
    Object.assign(charts.get(panel.env), { panel, metric });
  }
  charts.forEach((chart) => { legend(chart); redraw(chart); });
}
