// What the records have paid: a strip for each stream, and the ledger's own numbers.

import { drawStrip } from "./charts.js";
import { $, count, el, exact, percent, table } from "./elements.js";

/** The lines of the ledger, as `tidegate ledger` names them. */
const LEDGER = [
  ["records", "records", count],
  ["fits", "fits that read them", count],
  ["evaluations", "evaluations that read them", count],
  ["worst_record", "the record that paid most", count],
  ["paid", "it paid", percent],
  ["most_for_ever", "the most any record ever pays", percent],
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
  const rows = LEDGER.map(([name, words, text]) => [
    words, ...lines.map((line) => exact(line[name], text(line[name]))),
  ]);
  const names = lines.length > 1 ? lines.map((line) => line.stream) : ["now"];
  table($("ledger-table"), "The ledger", ["in the ledger", ...names], rows);
}
