// What the newest scores tell: measures, the calibration curve and the confusion matrix.

import { drawCalibration } from "./charts.js";
import { MEASURES } from "./glossary.js";
import { $, around, count, el, inUnits, plain, table, term } from "./elements.js";

const FORMS = { around, plain, inUnits };

/** The measures that are known: name, label, term of the glossary, format, what to compare with. */
const known = (scores) =>
  MEASURES[scores.target ? "target" : "classes"]
    .filter(({ name, alone }) => alone && scores[name])
    .map(({ name, label, term: meaning, form, baseline, words }) =>
      [name, label, meaning, FORMS[form], baseline, words]);

const small = (label) => (label === label.toUpperCase() ? label : label.toLowerCase());

/** The measures in one line. */
export const inWords = (scores) => known(scores).map(
  ([name, label, , text, other, words]) => `${small(label)} ` +
    `${text(scores[name])}${scores[other] ? ` (${words} ${text(scores[other])})` : ""}`,
).join(", ");

export function showScores({ scores }, { records: { classes } }) {
  $("scores-words").textContent = scores
    ? `Release ${count(scores.of_release)} on the ${count(scores.records)} records up to ` +
      `${count(scores.at)}. ± is two standard deviations of the noise: 95 %. What the noise ` +
      "hides is left out."
    : "Not measured yet. With a share in [quality], each release is scored on the step after it.";
  const rows = scores ? known(scores) : [];
  $("scores-measures").replaceChildren(...rows.map(([name, label, meaning, text, other, words]) =>
    el("div", {},
      el("dt", {}, meaning ? term(meaning, label) : label),
      el("dd", {}, text(scores[name])),
      el("dd", {}, scores[other] ? `${words} ${text(scores[other])}` : ""),
    )));
  showCalibration(scores?.calibration ?? []);
  if (scores?.target) showTable(scores.table, scores.target);
  else showConfusion(scores?.confusion, classes, ["Confusion matrix", "true class", "class"]);
}

/** Predictions beside the truth, by equal parts of the target's range. */
function showTable(found, [low, high]) {
  const parts = found.counts.length;
  const end = (part) => String(+(low + (part / parts) * (high - low)).toPrecision(4));
  const names = found.counts.map((_, part) => `${end(part)} to ${end(part + 1)}`);
  showConfusion(found, names, ["Predictions beside the truth", "truth", "part of the range"]);
}

function showCalibration(bins) {
  const known = bins.filter((bin) => bin.predicted && bin.observed);
  $("calibration-part").hidden = !known.length;
  if (!known.length) return;
  drawCalibration($("calibration-chart"), known);
  const rows = known.map((bin) => [
    `${+(bin.low * 100).toFixed(1)} to ${+(bin.high * 100).toFixed(1)} %`,
    around(bin.predicted), around(bin.observed), bin.share ? around(bin.share) : "–",
  ]);
  const heads = ["probability", "predicted", "observed", "share of records"];
  table($("calibration-table"), "Calibration of the newest scores", heads, rows);
}

/** Rows are true classes, columns are predicted ones; a darker cell is a larger part of its row. */
function showConfusion(confusion, classes, [title, corner, what]) {
  $("confusion-part").hidden = !confusion;
  if (!confusion) return;
  $("confusion-title").textContent = title;
  const caption = `Records by true ${what} (row) and predicted ${what} (column), each ± ` +
    `${count(Math.round(2 * confusion.deviation))}`;
  const head = (text) => el("th", { scope: "col" }, String(text));
  const rows = confusion.counts.map((counts, index) => {
    const sum = counts.reduce((total, one) => total + one, 0);
    return el("tr", {}, el("th", { scope: "row" }, String(classes[index])), ...counts.map((one) => {
      const cell = el("td", {}, count(Math.round(one)));
      cell.style.setProperty("--part", sum ? one / sum : 0);
      return cell;
    }));
  });
  $("confusion-table").ariaLabel = title;
  $("confusion-table").replaceChildren(el(
    "table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, head(corner), ...classes.map(head))),
    el("tbody", {}, ...rows),
  ));
}
