// The animated figure of the newest model: its window stands still and the stream moves through it.
// A chain has a lane for each of its blocks; a model whose records count less with age has a bar
// for each slot weight, which moves along and shrinks.
//
// The blocks are plain elements, placed in percent and moved by CSS transitions. Plotly cannot do
// this: it does not animate shapes, and its bars have no identity, so none can slide on its own.

import { $, count, el, percent, records, span, table, term } from "./elements.js";

const LEAVING = 900; // milliseconds, a little longer than the transitions in page.css
const MOST_CELLS = 64;
const MOST_LANES = 10;
const BAR_LANES = 3; // the height of the bars, in lanes; see .bar in page.css

/** The number of records that the first model needs. */
export function firstAt(schedule) {
  const { window, block, step, first = 1 } = schedule.source ?? schedule;
  return window ?? block ?? first * step;
}

/** Whether some records of a block count less than others. */
const isFaded = ({ emphasis }) => emphasis.some(({ weight }) => weight < 1);

const figures = new Map();

/** Show each stream with its part of the chain, and the chain as a table. */
export function showStreams({ streams, schedule, trained_on: trained }, { chain }) {
  const newest = chain.at(-1);
  $("stream-words").replaceChildren(...storyOf(chain, trained));
  $("weight-words").hidden = !newest || !isFaded(newest);
  const cells = [];
  for (const stream of streams) {
    if (!figures.has(stream.stream)) {
      const root = el("div", { class: "figure" });
      if (streams.length > 1) root.append(el("h3", {}, `Stream “${stream.stream}”`));
      $("streams").append(root);
      figures.set(stream.stream, streamFigure(root, stream.stream));
    }
    const first = stream === streams[0] ? firstAt(schedule) : null;
    const cell = figures.get(stream.stream)(stream, chain, first);
    cells.push(`${records(cell)}${streams.length > 1 ? ` of ${stream.stream}` : ""}`);
  }
  $("cell-words").textContent = `one cell: ${cells.join(", ")}`;
  if (newest && isFaded(newest)) showWeights(newest.emphasis);
  else showBlocks(chain);
}

function showBlocks(chain) {
  const rows = chain.map((block, index) => [
    String(index + 1), words(block, chain.at(-1)), span(block.start, block.stop),
    percent(block.share),
  ]);
  const heads = ["position", "model", "records", "cost per record"];
  const caption = chain.at(-1)?.emphasized ? "The newest model" : "The chain of the newest model";
  table($("chain-table"), caption, heads, rows);
}

/** The table of a model whose records count less with age, the newest first. */
function showWeights(emphasis) {
  const rows = [...emphasis].reverse().map((part) => [
    span(part.start, part.stop), percent(part.weight), percent(part.share),
  ]);
  const heads = ["records", "weight", "cost per record"];
  table($("chain-table"), "The slot weights of the newest model", heads, rows);
}

/** How the newest model was trained, in words. */
function storyOf(chain, trained) {
  if (!chain.length) return ["The first model is trained when enough records have arrived."];
  const newest = chain.at(-1);
  const one = `The newest model is ${trained}. `;
  if (isFaded(newest)) {
    return [
      one, "The lower a bar, the less its records count: their ", term("slot weight"),
      " falls with age, and they pay less.",
      newest.started_from === null || newest.start ? "" : " It starts from the model before it.",
    ];
  }
  if (newest.emphasized) return [one, "It is one fit of all these records."];
  return [
    `The newest model is ${trained}. It is the end of a `, term("chain"), ": a ", term("base"),
    `, then ${chain.length - 1} `, term("update", "updates"), ", each on other records. ",
    "Later models reuse these blocks, so each record is read only a few times.",
  ];
}

/** The colour of a block: one for the base, and one of four for an update, by level. */
const colour = (block) => (block.role === "base" ? "base" : `level-${block.level % 4}`);

/** One block of the chain, in words. */
function words(block, newest) {
  const size = count(block.stop - block.start);
  const base = block.emphasized ? `One fit of ${size} records` : `Base of ${size} records`;
  const what = block.role === "base" ? base : `Refined on ${size} more`;
  return block === newest ? `◆ ${what}` : what;
}

/** Create the figure of one stream in `root`; returns a function that draws it. */
function streamFigure(root, name) {
  const plot = el("div", { class: "plot", "aria-hidden": "true" });
  const lanes = el("ol", { class: "lanes", "aria-label": `Chain of the newest model in ${name}` });
  const where = el("span", {}, "newest records to the right");
  const head = el("p", { class: "head" }, "The stream", where);
  root.append(el("div", { class: "chain" }, head, lanes, plot));
  const drawn = new Map();
  let view = null;

  /** Draw a state, and return the size of a cell. */
  return function draw(state, chain, first) {
    const blocks = chain.filter((block) => (block.stream ?? name) === name);
    const shown = blocks.length > MOST_LANES
      ? [blocks[0], ...blocks.slice(1 - MOST_LANES)] : blocks;
    const window = blocks.length
      ? [Math.min(...blocks.map((b) => b.start)), Math.max(...blocks.map((b) => b.stop))]
      : around(state, chain.length ? null : first);
    const next = seen(window, state.step);
    const newest = chain.at(-1);
    let size = state.step;
    while ((next[1] - next[0]) / size > MOST_CELLS) size *= 2;
    const items = [
      ...cells(state, blocks, next, size),
      { key: "window", kind: "window", start: window[0], stop: window[1] },
      { key: "from", kind: "mark from", start: window[0], stop: window[1], text: count(window[0]) },
      { key: "size", kind: "mark size", start: window[0], stop: window[1],
        text: records(window[1] - window[0]) },
      { key: "to", kind: "mark to", start: window[0], stop: window[1], text: count(window[1]) },
      ...shown.flatMap((block, lane) => [
        ...(lane ? [link(shown[lane - 1], block, lane)] : []),
        ...(isFaded(block) ? bars(block, lane)
          : [{ key: `fit ${block.fit}`, kind: `block ${colour(block)}`, lane, ...block }]),
        ...(block === newest ? [{ ...gemAt(block), key: "newest", kind: "gem", lane }] : []),
      ]),
    ];
    join(plot, drawn, items, view ?? next, next);
    view = next;

    // Never less high than before, so that the page below does not jump.
    const needed = shown.some(isFaded) ? BAR_LANES : shown.length;
    const height = Math.max(needed, 1, Number(lanes.dataset.most ?? 0));
    lanes.dataset.most = height;
    root.style.setProperty("--lanes", height);
    const left = blocks.length - shown.length;
    const later = (lane) => (left && lane === 1 ? ` (after ${left} not shown)` : "");
    const rows = shown.map((block, lane) => el(
      "li", {},
      el("span", { class: "what" }, words(block, newest) + later(lane)),
      el("span", { class: "where" }, span(block.start, block.stop)),
    ));
    lanes.replaceChildren(...(rows.length ? rows : [el("li", {}, nothing(chain, first))]));
    return size;
  };
}

/** A bar for each slot weight. A step keeps its bar in the next model, where it is lower. */
function bars(block, lane) {
  return block.emphasis.map(({ start, stop, weight }) => (
    { key: `weight ${start}`, kind: `bar ${colour(block)}`, lane, start, stop, weight }
  ));
}

/** The window before any model was trained on this stream: up to the first, or the newest steps. */
function around({ done, step }, first) {
  return first ? [0, first] : [Math.max(0, done - 3 * step), Math.max(done, step)];
}

function nothing(chain, first) {
  if (chain.length) return "The newest model was not trained on these";
  return first ? `The first model comes with record ${count(first)}` : "No model yet";
}

/** The records in view: the window, some older records and the next steps. */
function seen([start, stop], step) {
  const size = stop - start;
  return [Math.max(start - 0.1 * size, 0), stop + Math.max(0.16 * size, 1.1 * step)];
}

/** The stream in cells of one step, or of 2, 4, ... steps if they would be too narrow. */
function cells(state, blocks, [low, high], size) {
  const made = [];
  for (let n = Math.max(0, Math.floor(low / size)); n * size < high; n += 1) {
    const [start, stop] = [n * size, (n + 1) * size];
    const centre = (start + stop) / 2;
    const block = blocks.find((each) => each.start <= centre && centre < each.stop);
    made.push({ key: `cell ${n} ${size}`, start, stop, ...look(state, start, stop, block) });
  }
  return made;
}

function look(state, start, stop, block) {
  const gone = stop <= state.held_from ? "gone" : "";
  if (block) return { kind: `cell part ${colour(block)} ${gone}`, weight: weightOf(block, stop) };
  if (gone) return { kind: "cell gone" };
  if (stop <= state.done) return { kind: "cell held" };
  const arrived = (state.records - start) / (stop - start);
  return { kind: "cell open", fill: Math.min(1, Math.max(0, arrived)) };
}

/** How much the records before `stop` count in a block. */
function weightOf({ emphasis }, stop) {
  return emphasis.find((part) => part.start < stop && stop <= part.stop)?.weight ?? 1;
}

function middle({ start, stop }) {
  return { start: (start + stop) / 2, stop: (start + stop) / 2 };
}

/** Where the mark of the newest model is: at its block, or at the bar that counts most. */
const gemAt = (block) => middle(isFaded(block) ? block.emphasis.at(-1) : block);

/** The line from a block to the one that refines it. */
function link(from, to, lane) {
  const centre = middle(from).start;
  const right = to.start >= centre;
  return {
    key: `link ${from.fit} ${to.fit}`,
    kind: `link ${right ? "right" : "left"}`,
    lane,
    start: right ? centre : Math.min(to.stop, centre),
    stop: right ? to.start : centre,
  };
}

/** Show these items: existing ones move, new ones enter at their old position, others leave. */
function join(plot, drawn, items, before, after) {
  const keys = new Set(items.map((item) => item.key));
  for (const [key, { node, item }] of drawn) {
    if (keys.has(key)) continue;
    place(node, item, after);
    node.classList.add("away");
    setTimeout(() => node.remove(), LEAVING);
    drawn.delete(key);
  }
  const fresh = [];
  for (const item of items) {
    if (drawn.has(item.key)) continue;
    const node = el("div");
    drawn.set(item.key, { node, item });
    place(node, item, before);
    node.classList.add("away");
    fresh.push(node);
  }
  plot.append(...fresh);
  void plot.offsetWidth; // makes the browser lay out the start positions; else nothing moves
  for (const item of items) {
    const entry = drawn.get(item.key);
    entry.item = item;
    place(entry.node, item, after);
  }
}

function place(node, item, [low, high]) {
  const percent = (records) => (records / (high - low)) * 100;
  node.className = item.kind;
  node.style.setProperty("--from", percent(item.start - low));
  node.style.setProperty("--wide", percent(item.stop - item.start));
  node.style.setProperty("--lane", item.lane ?? 0);
  node.style.setProperty("--fill", item.fill ?? 0);
  node.style.setProperty("--weight", item.weight ?? 1);
  if (node.textContent !== (item.text ?? "")) node.textContent = item.text ?? "";
}
