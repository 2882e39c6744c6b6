"use strict";
// The page of `toppo board`: asks for the data every two seconds, and shows what has changed.

const SECONDS = 2, SECONDS_LOST = 5, MAX_ROWS = 400;
const STATES = ["running", "starting", "failed", "interrupted", "stopped", "finished", "waiting"];
const asked = new URLSearchParams(location.hash.slice(1));
const rows = new Map();
let metric = asked.get("metric") || "return", data = null, seen = "", timer = 0;

// Tiles

function tiles(all) {
  const box = $("tiles");
  if (box.children.length !== all.length) {
    box.replaceChildren(...all.map((tile) => {
      const parts = [make("span", { class: "name" }), make("span", { class: "value" })];
      if (tile.share !== undefined) parts.push(make("div", { class: "bar" }, make("i")));
      return make("div", { class: tile.share === undefined ? "tile" : "tile wide" }, ...parts, make("span", { class: "more" }));
    }));
  }
  all.forEach((tile, i) => {
    const element = box.children[i];
    say(element.querySelector(".name"), tile.name);
    say(element.querySelector(".value"), tile.value);
    say(element.querySelector(".more"), tile.more || "");
    if (tile.share !== undefined) element.querySelector("i").style.width = `${100 * tile.share}%`;
  });
}

function tilesOfRun(run) {
  const newest = run.tests.length ? run.tests[run.tests.length - 1] : null;
  return [
    { name: run.state, value: `${steps(run.steps)} steps`, share: share(run), more: run.message || `of ${steps(run.total)}` },
    { name: "time left", value: clock(run.left) },
    { name: "steps per second", value: steps(run.speed) },
    { name: "return", value: number(mean(run.recent)), more: run.recent.length ? `mean of the last ${run.recent.length} episodes` : "no episode has ended" },
    { name: "test return", value: newest ? number(newest[1]) : "–", more: newest ? `best ${number(run.best)}` : "no test" },
  ];
}

function tilesOfAll(all, total) {
  const count = (state) => all.filter((run) => run.state === state).length;
  const others = STATES.filter((state) => !["running", "finished"].includes(state) && count(state));
  return [
    { name: "progress", value: `${Math.floor((100 * total.steps) / (total.total || 1))} %`, share: total.steps / (total.total || 1), more: `${steps(total.steps)} of ${steps(total.total)} steps` },
    { name: "time left", value: clock(total.left) },
    { name: "steps per second", value: steps(total.speed), more: count("running") > 1 && total.speed ? "of all runs together" : "" },
    { name: "running", value: String(count("running")), more: others.map((state) => `${count(state)} ${state}`).join(", ") },
    { name: "finished", value: `${count("finished")} of ${all.length}`, more: "" },
  ];
}

// Episodes, tests, video, runs

function bars(values, colour, height) {
  const low = Math.min(0, ...values), high = Math.max(0, ...values), span = high - low || 1, wide = 300 / Math.max(values.length, 20);
  const svg = draw("svg", { viewBox: `0 0 300 ${height}`, width: "100%", height, preserveAspectRatio: "none", role: "img", "aria-label": "returns of the newest episodes" });
  values.forEach((value, i) => {
    const size = Math.max(1, (Math.abs(value) / span) * height), top = value >= 0 ? ((high - value) / span) * height : (high / span) * height;
    svg.append(draw("rect", { x: i * wide, y: Math.min(height - size, top), width: wide * 0.72, height: size, fill: colour, "fill-opacity": 0.35 + (0.65 * (i + 1)) / values.length }, draw("title", {}, number(value))));
  });
  return svg;
}

function colourOf(run) {
  const arms = data.panels.flatMap((panel) => panel.arms);
  return (arms.find((arm) => arm.arm === run.arm) || { colour: "currentColor" }).colour;
}

function details(run) {
  const least = Math.min(...run.recent), most = Math.max(...run.recent);
  const about = run.recent.length ? `newest on the right: ${number(run.recent[run.recent.length - 1])}; least ${number(least)}, most ${number(most)}` : "no episode has ended yet";
  $("episodes").replaceChildren(bars(run.recent, colourOf(run), 110), make("p", { class: "soft" }, about));
  const head = make("tr", {}, make("th", { scope: "col" }, "steps"), make("th", { scope: "col" }, "mean return"));
  const body = run.tests.slice(-6).reverse().map(([at, value]) => make("tr", { class: value === run.best ? "best" : "" }, make("td", {}, steps(at)), make("td", {}, number(value))));
  $("tests").replaceChildren(body.length ? make("table", {}, head, ...body) : make("p", { class: "soft" }, "None so far. toppo train --evaluate-every STEPS tests the policy during training."));
}

function film(all) {
  const newest = all.filter((run) => run.video).sort((a, b) => (a.video.split("?")[1] < b.video.split("?")[1] ? 1 : -1))[0];
  $("film").hidden = !newest;
  if (!newest || $("video").getAttribute("src") === `/video/${newest.video}`) return;
  $("video").setAttribute("src", `/video/${newest.video}`);
  say($("film-of"), all.length > 1 ? newest.name : "");
}

function rowOf() {
  const row = { name: make("span"), of: make("div", { class: "soft" }), why: make("div", { class: "soft" }), state: make("span"), bar: make("i"), steps: make("span", { class: "soft" }), spark: make("div", { class: "spark" }), mean: make("div"), test: make("span", { class: "soft" }), left: make("div"), speed: make("span", { class: "soft" }) };
  const progress = make("div", { class: "progress" }, make("div", { class: "bar" }, row.bar), row.steps);
  row.box = make("div", { role: "row" }, make("div", { class: "run" }, row.name, row.of, row.why), make("div", {}, row.state), progress, row.spark, make("div", { class: "end" }, row.mean, row.test), make("div", { class: "end last" }, row.left, row.speed));
  return row;
}

function table(all) {
  const shown = all.slice(0, MAX_ROWS), box = $("rows"), wanted = new Set(shown.map((run) => run.key || run.name));
  if (!box.children.length) box.append(make("div", { class: "head", role: "row" }, ...["run", "state", "progress", "newest episodes", "return", "time left"].map((name, i) => make("span", { class: i > 3 ? "end" : "" }, name))));
  for (const [key, row] of rows) if (!wanted.has(key)) { row.box.remove(); rows.delete(key); }
  shown.forEach((run, i) => {
    const key = run.key || run.name;
    if (!rows.has(key)) rows.set(key, rowOf());
    const row = rows.get(key);
    if (box.children[i + 1] !== row.box) box.insertBefore(row.box, box.children[i + 1] || null);
    fill(row, run);
  });
  say($("more"), all.length > shown.length ? `and ${steps(all.length - shown.length)} more` : "");
}

function fill(row, run) {
  const recent = run.recent || [], newest = run.tests && run.tests.length ? run.tests[run.tests.length - 1][1] : null;
  say(row.name, run.name);
  say(row.of, run.env ? `${run.arm} on ${run.env}, seed ${run.seed}` : "");
  say(row.why, run.message || "");
  row.state.className = `state ${run.state}`;
  say(row.state, run.state);
  row.bar.className = run.state;
  row.bar.style.width = `${100 * share(run)}%`;
  say(row.steps, run.total ? `${steps(run.steps)} of ${steps(run.total)}` : "");
  row.spark.replaceChildren(...(recent.length ? [bars(recent, colourOf(run), 26)] : []));
  say(row.mean, recent.length ? number(mean(recent)) : "–");
  say(row.test, newest === null ? "" : `test ${number(newest)}`);
  say(row.left, run.speed ? clock(run.left) : "–");
  say(row.speed, run.speed ? `${steps(run.speed)} steps/s` : "");
}

// The page

function choices(names) {
  const select = $("metric");
  if (select.dataset.names !== names.join("\n")) {
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    select.dataset.names = names.join("\n");
  }
  select.value = metric = data.metric;
}

function show() {
  const all = data.runs, only = all.length === 1 && all[0].key ? all[0] : null;
  say($("subtitle"), only ? `${only.arm} on ${only.env}, seed ${only.seed}` : `${all.length} runs${data.unread ? `, reading the episodes of ${data.unread} of them` : ""}`);
  tiles(only ? tilesOfRun(only) : tilesOfAll(all, data.total));
  choices(data.metrics);
  panels(data.panels, data.metric);
  $("newest").hidden = $("tested").hidden = !only;
  if (only) details(only);
  film(all);
  $("runs").hidden = Boolean(only);
  if (!only) table(all);
  $("problems").hidden = !data.problems.length;
  $("problems").replaceChildren(...data.problems.map((text) => make("li", {}, text)));
}

function connected(word, kind) {
  $("live").className = `live ${kind}`;
  say($("live"), word);
}

async function ask() {
  clearTimeout(timer);
  let wait = SECONDS;
  try {
    const answer = await fetch(`/data?metric=${encodeURIComponent(metric)}&seen=${seen}`);
    if (!answer.ok) throw new Error(answer.statusText);
    const found = answer.status === 204 ? null : await answer.json();
    $("error").hidden = !(found && found.error);
    if (found && found.error) say($("error"), found.error);
    else if (found) { data = found; seen = answer.headers.get("X-Digest") || ""; show(); }
    connected("live", "on");
  } catch (error) {
    connected("not connected", "off");
    wait = SECONDS_LOST;
  }
  if (!document.hidden) timer = setTimeout(ask, 1000 * wait);
}

$("metric").addEventListener("change", (event) => {
  metric = event.target.value;
  asked.set("metric", metric);
  history.replaceState(null, "", `#${asked}`);
  ask();
});
$("smooth").addEventListener("input", () => charts.forEach((chart) => { legend(chart); redraw(chart); }));
document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
ask();
