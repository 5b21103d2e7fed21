// The two charts, drawn by Plotly, whose bundle comes with its Python package.

import { accuracy, around, count, el, inUnits, percent } from "./elements.js";

/** Loaded in the background: the page does not wait for its five megabytes. */
const plotly = new Promise((ready, failed) => {
  const script = el("script", { src: "/page/plotly.min.js", onerror: failed });
  script.addEventListener("load", () => ready(window.Plotly));
  document.head.append(script);
});

/** A colour of page.css in the current theme. */
function ink(name) {
  const probe = document.body.appendChild(el("i", { class: `ink ${name}` }));
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

const faint = (colour, alpha) => colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

function layout(height, more) {
  const axis = {
    fixedrange: true, // so that scrolling by touch does not zoom the chart
    gridcolor: ink("line"),
    linecolor: ink("line"),
    zeroline: false,
    tickfont: { size: 12 },
    title: { font: { size: 12 }, standoff: 8 },
  };
  return {
    height,
    margin: { l: 52, r: 12, t: 12, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", color: ink("soft") },
    showlegend: false,
    hovermode: "x",
    dragmode: false,
    hoverlabel: { bgcolor: ink("card"), bordercolor: ink("line"), font: { color: ink("text") } },
    xaxis: { ...axis, ...more.xaxis, title: { ...axis.title, ...more.xaxis.title } },
    yaxis: { ...axis, ...more.yaxis },
    shapes: more.shapes,
    annotations: more.annotations,
  };
}

function percents(low, high) {
  const between = high - low > 60 ? 25 : 10;
  const tickvals = Array.from({ length: 100 / between + 1 }, (_, index) => index * between);
  return { range: [low, high], tickvals, ticktext: tickvals.map((value) => `${value} %`) };
}

async function draw(root, words, traces, look) {
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", words);
  const Plotly = await plotly;
  await Plotly.react(root, traces, look, { displayModeBar: false, responsive: true });
}

/** Draw the ledger as a strip over the records, with the bound. */
export function drawStrip(root, strip, records, bound) {
  const paid = strip.paid.map((share) => share * 100);
  const used = ink("used");
  const limit = ink("soft");
  const most = Math.max(0, ...strip.paid);
  const trace = {
    x: [...strip.starts, records],
    y: [...paid, paid.at(-1) ?? 0],
    customdata: [...strip.paid, strip.paid.at(-1) ?? 0].map(percent),
    type: "scatter",
    mode: "lines",
    fill: "tozeroy",
    fillcolor: faint(used, 0.28),
    line: { shape: "hv", width: 1.5, color: used },
    hovertemplate: "from record %{x:,}: at most %{customdata} paid<extra></extra>",
  };
  const line = { type: "line", xref: "paper", x0: 0, x1: 1, y0: bound * 100, y1: bound * 100 };
  const look = layout(230, {
    xaxis: { range: [0, Math.max(records, 1)], title: { text: "record" }, tickformat: ",d" },
    yaxis: percents(0, 116),
    shapes: [{ ...line, line: { color: limit, width: 2, dash: "dash" } }],
    annotations: [{
      text: "the plan: at most 100 %, for ever", xref: "paper", x: 1, y: bound * 100, yanchor: "bottom",
      xanchor: "right", showarrow: false, font: { color: limit, size: 12 },
    }],
  });
  const words = `None of ${count(records)} records has paid more than ${percent(most)} so far; ` +
    "the bound is 100 %. The table below says the same.";
  return draw(root, words, [trace], look);
}

/** Draw private accuracy over time, with two standard deviations of noise on each side. */
export function drawQuality(root, quality, axis, alarms) {
  const x = quality.map((point) => point.at);
  const edge = (deviations) => quality.map(({ accuracy: share, deviation }) =>
    Math.min(100, Math.max(0, (share + deviations * deviation) * 100)));
  const line = ink("base");
  const side = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip" };
  const compared = quality.filter((point) => point.majority);
  const traces = [
    { ...side, y: edge(-2) },
    { ...side, y: edge(+2), fill: "tonexty", fillcolor: faint(line, 0.2) },
    {
      type: "scatter",
      mode: quality.length > 60 ? "lines" : "lines+markers",
      x,
      y: edge(0),
      customdata: quality.map((p) => `${accuracy(p.accuracy)} ± ${accuracy(2 * p.deviation)}`),
      line: { color: line, width: 2 },
      marker: { color: line, size: 5 },
      hovertemplate: `%{x:,} (${axis}): %{customdata}<extra></extra>`,
    },
    {
      type: "scatter",
      mode: compared.length > 1 ? "lines" : "markers",
      x: compared.map((point) => point.at),
      y: compared.map((point) => Math.min(100, Math.max(0, point.majority.value * 100))),
      customdata: compared.map((point) => around(point.majority)),
      line: { color: ink("soft"), width: 2, dash: "dash" },
      marker: { color: ink("soft"), size: 5 },
      hovertemplate: "majority class: %{customdata}<extra></extra>",
    },
    marks(alarms, 103),
  ];
  const least = Math.min(...edge(-2), ...traces[3].y);
  const look = layout(300, {
    xaxis: { title: { text: axis }, tickformat: ",d" },
    yaxis: percents(Math.floor(least / 20) * 20, 106),
  });
  const last = quality.at(-1);
  const words = `Private accuracy over time, the newest ${accuracy(last.accuracy)} at ` +
    `${count(last.at)} (${axis})` +
    (last.majority ? `, the majority class ${accuracy(last.majority.value)}` : "") +
    `; ${count(alarms.length)} drift alarms. The table below says the same.`;
  return draw(root, words, traces, look);
}

/** Draw the mean absolute error over time, with two standard deviations of noise on each side. */
export function drawErrors(root, errors, axis, alarms) {
  const x = errors.map((point) => point.at);
  const edge = (deviations) => errors.map(({ value, deviation }) =>
    Math.max(0, value + deviations * deviation));
  const line = ink("base");
  const side = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip" };
  const top = Math.max(...edge(+2)) * 1.1;
  const traces = [
    { ...side, y: edge(-2) },
    { ...side, y: edge(+2), fill: "tonexty", fillcolor: faint(line, 0.2) },
    {
      type: "scatter",
      mode: errors.length > 60 ? "lines" : "lines+markers",
      x,
      y: edge(0),
      customdata: errors.map(inUnits),
      line: { color: line, width: 2 },
      marker: { color: line, size: 5 },
      hovertemplate: `%{x:,} (${axis}): %{customdata}<extra></extra>`,
    },
    marks(alarms, top * 0.97),
  ];
  const look = layout(300, {
    xaxis: { title: { text: axis }, tickformat: ",d" },
    yaxis: { range: [0, top] },
  });
  const last = errors.at(-1);
  const words = `Private mean absolute error over time, the newest ${inUnits(last)} at ` +
    `${count(last.at)} (${axis}); ${count(alarms.length)} drift alarms. ` +
    "The table below says the same.";
  return draw(root, words, traces, look);
}

/** A triangle at the top for each drift alarm. */
function marks(alarms, top) {
  return {
    type: "scatter",
    mode: "markers",
    x: alarms.map((alarm) => alarm.at),
    y: alarms.map(() => top),
    customdata: alarms.map(({ drift }) => `${drift.what}, ${drift.statistic.toFixed(1)} times the threshold`),
    marker: { color: ink("bound"), size: 11, symbol: "triangle-down" },
    hovertemplate: "drift alarm at %{x:,}: %{customdata}<extra></extra>",
  };
}

/** Draw predicted against observed shares, with two standard deviations of noise on each side. */
export function drawCalibration(root, bins) {
  const line = ink("base");
  const bars = (name) => ({
    type: "data", array: bins.map((bin) => bin[name].deviation * 200), color: line, thickness: 1.5,
  });
  const trace = {
    type: "scatter",
    mode: "markers",
    x: bins.map((bin) => bin.predicted.value * 100),
    y: bins.map((bin) => bin.observed.value * 100),
    error_x: bars("predicted"),
    error_y: bars("observed"),
    customdata: bins.map((bin) => [around(bin.predicted), around(bin.observed)]),
    marker: { color: line, size: 8 },
    hovertemplate: "predicted %{customdata[0]}, observed %{customdata[1]}<extra></extra>",
  };
  const ideal = { type: "line", x0: 0, y0: 0, x1: 100, y1: 100 };
  const look = layout(230, {
    xaxis: { ...percents(-4, 104), title: { text: "predicted" } },
    yaxis: { ...percents(-4, 104), title: { text: "observed", font: { size: 12 } } },
    shapes: [{ ...ideal, line: { color: ink("soft"), width: 1.5, dash: "dash" } }],
  });
  look.hovermode = "closest";
  look.margin.l = 64;
  const words = `Calibration in ${bins.length} bins: predicted against observed shares; on the ` +
    "dashed line they are equal. The table below says the same.";
  return draw(root, words, [trace], look);
}

/** The colours of lines, in order: classes of page.css. */
export const LINES = ["base", "level-0", "level-1", "level-2", "level-3"];

/** Draw shares over time: a line for each class, and a dotted one for unusable records. */
export function drawShares(root, { x, lines, unusable, axis, alarms }) {
  const values = [...lines.flatMap((each) => each.shares), ...unusable].map((each) => each.value);
  const top = Math.min(100, Math.ceil(Math.max(...values) * 10) * 10 + 10);
  const trace = (name, shares, look) => ({
    type: "scatter",
    mode: x.length > 1 ? "lines" : "markers",
    x,
    y: shares.map((share) => share.value * 100),
    customdata: shares.map((share) => `${name}: ${around(share)}`),
    hovertemplate: "%{customdata}<extra></extra>",
    line: look,
    marker: { color: look.color },
  });
  const traces = [
    ...lines.map(({ name, shares }, index) =>
      trace(name, shares, { color: ink(LINES[index]), width: 2 })),
    trace("unusable", unusable, { color: ink("soft"), width: 2, dash: "dot" }),
    marks(alarms, top),
  ];
  const look = layout(300, {
    xaxis: { title: { text: axis }, tickformat: ",d" },
    yaxis: percents(Math.min(-4, Math.floor(Math.min(...values) * 10) * 10), top * 1.06),
  });
  const words = `Class shares and the share of unusable records over time, in ${x.length} points. ` +
    "The table below says the same.";
  return draw(root, words, traces, look);
}
