// What the records have paid: a strip for each stream, and a table of the ledger.

import { drawStrip } from "./charts.js";
import { $, count, el, exact, percent, table } from "./elements.js";

/** Keys of `tidegate ledger --format json`, with their labels and formats. */
const LEDGER = [
  ["records", "records", count],
  ["fits", "fits trained on them", count],
  ["evaluations", "evaluations on them", count],
  ["worst_record", "most-charged record", count],
  ["paid", "what it has paid", percent],
  ["most_for_ever", "the most any record ever pays", percent],
];

/** Shown only if a step was stopped. Its records paid and are not among the records above. */
const STOPPED = [
  ["stopped_records", "records of stopped steps", count],
  ["stopped_paid", "what each of these paid at most", percent],
];

const charts = new Map();

export function showLedger(ledger, { bound, streams }) {
  for (const strip of streams) {
    const line = ledger.lines.find((each) => each.stream === strip.stream);
    if (!charts.has(strip.stream)) {
      const root = el("div", { class: "chart" });
      if (streams.length > 1) $("ledger-charts").append(el("h3", {}, strip.stream));
      $("ledger-charts").append(root);
      charts.set(strip.stream, root);
    }
    drawStrip(charts.get(strip.stream), strip, line.records, bound);
  }
  const buckets = streams.flatMap(({ stream, starts, paid }) =>
    starts.map((start, index) => [stream, count(start), percent(paid[index])]));
  const columns = ["stream", "from record", "paid at most"];
  table($("strip-table"), "What records have paid", columns, buckets);
}

export function showLedgerTable({ lines }) {
  const stopped = lines.some((line) => line.stopped_records) ? STOPPED : [];
  const rows = [...LEDGER, ...stopped].map(([name, words, text]) => [
    words, ...lines.map((line) => exact(line[name], text(line[name]))),
  ]);
  const names = lines.length > 1 ? lines.map((line) => line.stream) : ["now"];
  table($("ledger-table"), "The ledger", ["in the ledger", ...names], rows);
}
