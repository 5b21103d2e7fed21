// The page: asks the service what is so, shows it, and keeps it up to date by its events.

import { drawQuality, drawStrip } from "./charts.js";
import {
  $, accuracy, count, el, exact, percent, records, small, span, table,
} from "./elements.js";
import { showForm } from "./predict.js";
import { showNewer, showOlder, showReleases } from "./releases.js";
import { Refused, ask, events, token, tokenFromAddress } from "./service.js";
import { streamFigure, words } from "./stream.js";

/** The lines of the ledger, as `tidegate ledger` names them. */
const LEDGER = [
  ["records", "records", count],
  ["fits", "fits that read them", count],
  ["worst_record", "the record that paid most", count],
  ["paid_for_fits", "it paid for fits", percent],
  ["reserved_for_quality", "every record pays for quality", percent],
  ["most_for_ever", "the most any record ever pays", percent],
];

const MOST_POINTS = 80;

const known = { status: null, plan: null, ledger: null, strip: null };
const figures = new Map();
const charts = new Map();

// --- what is shown

function show() {
  if (!known.plan) return;
  showPromise();
  showFacts();
  showStreams();
  showLedger();
  showQuality();
  showHeld();
  showWords();
}

function showPromise() {
  const { epsilon, delta } = known.status.budget;
  $("promise").textContent =
    `All models released here, now and for ever, together tell at most ε = ${epsilon} about any ` +
    "one record.";
  const used = (line) => line.paid_for_fits + line.reserved_for_quality;
  const most = Math.max(...known.ledger.lines.map(used));
  $("used").replaceChildren(
    "So far the record that has paid most has used ",
    el("strong", {}, exact(most, percent(most))),
    " of that. None will ever pay more than 100 %.",
  );
  $("meters").replaceChildren(...known.ledger.lines.map((line) => meter(line, used(line))));
  $("meaning").textContent =
    "Exchange any one record for another, and nothing that is published here becomes more than " +
    `${Math.exp(epsilon).toPrecision(3)} times as likely (e to the power of ε` +
    `${delta ? `; but for a chance of δ = ${small(delta)}` : ""}).`;
  $("warning").hidden = known.status.private;
  $("warning").textContent =
    "NOT PRIVATE: the noise of these models was made with a seed. Nothing said here holds.";
}

function meter(line, used) {
  const bar = el("span", { class: "bar" });
  bar.style.width = `${used * 100}%`;
  const words = `Budget used by the record of ${line.stream} that has paid most`;
  const name = known.ledger.lines.length > 1 ? line.stream : "";
  return el("div", { class: "quiet" }, name, el("div", {
    class: "meter", role: "meter", "aria-label": words, "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-valuenow": (used * 100).toFixed(1),
  }, bar));
}

function showFacts() {
  const { streams, releases } = known.status;
  const sum = (name) => streams.reduce((total, stream) => total + stream[name], 0);
  const next = streams.map(({ records: arrived, done, step }) => Math.max(0, done + step - arrived));
  $("fact-records").replaceChildren(exact(sum("records"), count(sum("records"))));
  $("fact-releases").replaceChildren(exact(releases, count(releases)));
  $("fact-next").textContent = known.status.training
    ? "training now"
    : records(releases ? Math.min(...next) : Math.max(0, firstAt() - streams[0].records));
  $("fact-held").replaceChildren(exact(sum("held_records"), count(sum("held_records"))));
}

/** How many records the first model needs. */
function firstAt() {
  const { schedule } = known.status;
  const { window, block, step } = schedule.source ?? schedule;
  return window ?? block ?? step;
}

function showStreams() {
  const { streams } = known.status;
  const { chain } = known.plan;
  $("stream-words").textContent = chain.length
    ? `The newest model is a chain: a base, then ${chain.length - 1} refinements, each on records ` +
      "of its own. Blocks stay while the stream flows on, so a record is read a few times only."
    : "Records arrive; the first model comes when there are enough of them.";
  const cells = [];
  for (const stream of streams) {
    if (!figures.has(stream.stream)) {
      const root = el("div", { class: "figure" });
      if (streams.length > 1) root.append(el("h3", {}, `Stream “${stream.stream}”`));
      $("streams").append(root);
      figures.set(stream.stream, streamFigure(root, stream.stream));
    }
    const cell = figures.get(stream.stream)(stream, chain, firstAt());
    cells.push(`${records(cell)}${streams.length > 1 ? ` of ${stream.stream}` : ""}`);
  }
  $("cell-words").textContent = `one cell: ${cells.join(", ")}`;
  const rows = chain.map((block, index) => [
    String(index + 1), words(block, chain.at(-1)), span(block.start, block.stop),
    percent(block.share),
  ]);
  const heads = ["place", "model", "of records", "cost of each"];
  table($("chain-table"), "The chain of the newest model", heads, rows);
}

function showLedger() {
  for (const strip of known.strip.streams) {
    const line = known.ledger.lines.find((each) => each.stream === strip.stream);
    if (!charts.has(strip.stream)) {
      const root = el("div", { class: "chart" });
      if (known.strip.streams.length > 1) $("ledger-charts").append(el("h3", {}, strip.stream));
      $("ledger-charts").append(root);
      charts.set(strip.stream, root);
    }
    drawStrip(charts.get(strip.stream), strip, line.records, known.strip.bound);
  }
  const buckets = known.strip.streams.flatMap(({ stream, starts, paid }) =>
    starts.map((start, index) => [stream, count(start), percent(paid[index])]));
  const columns = ["stream", "from record", "paid at most"];
  table($("strip-table"), "What records have paid", columns, buckets);
  showLedgerTable();
}

function showLedgerTable() {
  const { lines } = known.ledger;
  const rows = LEDGER.map(([name, words, text]) => [
    words, ...lines.map((line) => exact(line[name], text(line[name]))),
  ]);
  const names = lines.length > 1 ? lines.map((line) => line.stream) : ["now"];
  table($("ledger-table"), "The ledger", ["in the ledger", ...names], rows);
}

function showQuality() {
  const { quality } = known.status;
  const each = Math.ceil(quality.length / MOST_POINTS);
  $("quality-words").textContent = quality.length
    ? "Each model is tried on the step that follows it, which it has not read. The answer is noised " +
      "and paid for like a model; the band is two standard deviations of that noise to each side. " +
      "What the noise lifts above 100 % is shown as 100 %." +
      (each > 1 ? ` The chart shows means of ${each} steps.` : "")
    : "Nothing is known about it yet. A [quality] share in the configuration buys a private accuracy " +
      "at each step, from the second model on.";
  for (const part of ["newest", "chart", "more"]) $(`quality-${part}`).hidden = !quality.length;
  if (quality.length) {
    const newest = quality.at(-1);
    $("quality-newest").replaceChildren(
      exact(newest.accuracy, accuracy(newest.accuracy)), ` ± ${accuracy(2 * newest.deviation)}`,
    );
    drawQuality($("quality-chart"), means(quality, each));
  }
  const rows = [...quality].reverse().map((point) => [
    count(point.at), exact(point.accuracy, accuracy(point.accuracy)),
    `± ${accuracy(2 * point.deviation)}`,
  ]);
  const heads = ["records arrived", "accuracy", "uncertain by"];
  table($("quality-table"), "Private accuracy", heads, rows);
}

/** Many points as the means of a few each: their noise is independent, so it gets smaller. */
function means(quality, each) {
  return Array.from({ length: Math.ceil(quality.length / each) }, (_, index) => {
    const group = quality.slice(index * each, (index + 1) * each);
    const sum = (value) => group.reduce((total, point) => total + value(point), 0);
    return {
      at: group.at(-1).at,
      accuracy: sum((point) => point.accuracy) / group.length,
      deviation: Math.sqrt(sum((point) => point.deviation ** 2)) / group.length,
    };
  });
}

function showHeld() {
  $("held").replaceChildren(...known.status.streams.flatMap((stream) => {
    const name = known.status.streams.length > 1 ? ` of “${stream.stream}”` : "";
    const bar = el("span", { class: "bar" });
    const gone = stream.held_from / Math.max(1, stream.records);
    bar.style.left = `${gone * 100}%`;
    bar.style.width = `${(1 - gone) * 100}%`;
    const why = stream.held_records
      ? `Records ${span(stream.held_from, stream.records)}${name}: ${stream.held_because}.`
      : `None${name}.`;
    return [
      el("p", { class: "big" }, exact(stream.held_records, records(stream.held_records))),
      el("div", { class: "rail", "aria-hidden": "true" }, bar),
      el("p", {}, why),
      el("p", {}, `${records(stream.held_from)}${name} before them are deleted.`),
    ];
  }));
}

// --- how it is kept up to date

const pause = (seconds) => new Promise((ready) => setTimeout(ready, seconds * 1000));

function connection(state, text) {
  $("connection").dataset.state = state;
  $("connection").textContent = text;
}

/** Ask for all that a release changes. */
async function refresh() {
  const buckets = Math.min(240, Math.max(60, Math.round(innerWidth / 5)));
  const paths = ["status", "plan", "ledger", `ledger/strip?buckets=${buckets}`];
  const found = await Promise.all(paths.map((path) => ask(`/v1/${path}`)));
  [known.status, known.plan, known.ledger, known.strip] = found;
  show();
}

/** Show what is so, then what changes. */
async function listen() {
  await refresh();
  await showReleases(known.status.releases);
  await showBox();
  connection("live", "Live");
  wait = 1;
  for await (const [event, data] of events("/v1/releases/events")) {
    // Progress is told at once, and again after every release, so that nothing is missed. What
    // was said before the last answer is old.
    if (event !== "progress" || arrived(data) < arrived(known.status)) continue;
    if (data.releases > known.status.releases) {
      await refresh();
      await showNewer(known.status.releases);
      await showBox();
    } else {
      known.status = { ...known.status, ...data };
      for (const line of known.ledger.lines) {
        line.records = data.streams.find((each) => each.stream === line.stream).records;
      }
      showFacts();
      showStreams();
      showLedgerTable();
      showHeld();
    }
  }
}

const arrived = ({ streams }) => streams.reduce((sum, stream) => sum + stream.records, 0);

/** The box to try the newest model in, made once there is one: its card says the width. */
async function showBox() {
  if ($("predict").childElementCount || !known.status.releases) return;
  showForm(known.plan.records, (await ask("/v1/releases/latest")).card);
}

function showWords() {
  const { releases } = known.status;
  $("releases-words").textContent = releases
    ? `${count(releases)} so far, the newest first. Each may be given to anyone.`
    : "None yet. The first comes as soon as enough records have arrived.";
  $("predict-words").textContent = releases
    ? "What you write is answered and not kept."
    : "There is no model yet.";
}

/** Stay connected for as long as there is a token that is good. */
let wait = 1; // seconds, longer each time that it is in vain
async function run() {
  for (; token.get(); wait = Math.min(wait * 2, 15)) {
    open(true);
    try {
      await listen();
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        token.forget();
        $("door-error").textContent = "This token is not good for reading, or not any more.";
        break;
      }
      console.warn(error.message);
    }
    connection("gone", "Reconnecting");
    await pause(wait);
  }
  open(false);
}

function open(inside) {
  $("main").hidden = !inside;
  $("door").hidden = inside;
  $("leave").hidden = !inside;
  $("connection").hidden = !inside;
  if (!inside) $("token").focus();
}

// --- the page's own buttons

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  const dark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").ariaLabel = `${dark ? "Light" : "Dark"} colours`;
  show();
}

$("theme").onclick = () => {
  const next = $("theme").textContent.toLowerCase();
  localStorage.setItem("tidegate-theme", next);
  theme(next);
};
matchMedia("(prefers-color-scheme: dark)").onchange = () =>
  theme(localStorage.getItem("tidegate-theme"));
$("older").onclick = showOlder;
$("leave").onclick = () => {
  token.forget();
  location.reload();
};
$("door-form").onsubmit = (event) => {
  event.preventDefault();
  token.set($("token").value.trim());
  $("token").value = $("door-error").textContent = "";
  run();
};

theme(localStorage.getItem("tidegate-theme"));
tokenFromAddress();
run();
