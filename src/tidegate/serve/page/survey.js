// What the surveys tell: class shares and unusable records over time, and the drift alarm.

import { LINES, drawShares } from "./charts.js";
import { $, around, count, el, grouped, meanOf, table, term } from "./elements.js";

const MOST_POINTS = 40; // each survey is noisy, so the chart shows means of several

export function showSurvey({ surveys: given, streams }, { records: { classes, target } }) {
  const surveys = given.map((row) => ({ ...row, classes: row.parts ?? row.classes }));
  const named = (index) => (target ? classes[index] : `class ${classes[index]}`);
  $("survey-part").hidden = !surveys.length;
  $("survey-words").replaceChildren(...(surveys.length ? ["At each step a ", term("survey"),
    " adds up its records, with noise that a share of their budget pays for."]
    : ["Not measured. With a share in [survey], class shares and unusable records are."]));
  if (!surveys.length) return;
  const stream = streams.at(-1).stream; // of two streams the target: the one that models are for
  const own = surveys.filter((row) => row.stream === stream);
  const shown = own.length ? own : surveys;
  const groups = grouped(shown, MOST_POINTS);
  if (groups[0].length > 1) {
    $("survey-words").append(` The chart shows means of ${groups[0].length} steps.`);
  }
  const share = (row, index) => ({ value: row.classes[index], deviation: row.deviation });
  const lines = shown.every((row) => row.classes) ? largest(shown).map((index) => ({
    name: named(index),
    shares: groups.map((group) => meanOf(group.map((row) => share(row, index)))),
  })) : [];
  drawShares($("survey-chart"), {
    x: groups.map((group) => group.at(-1).at),
    lines,
    unusable: groups.map((group) => meanOf(group.map(unusable))),
    axis: streams.length > 1 ? `records of ${shown[0].stream}` : "records arrived",
    alarms: shown.filter((row) => row.drift?.alarm),
  });
  $("survey-legend").replaceChildren(
    ...lines.map(({ name }, index) => el("li", {},
      el("i", { class: `line ${LINES[index]}` }), name)),
    el("li", {}, el("i", { class: "line none" }), "unusable"),
  );
  const all = lines.length ? shown[0].classes.map((_, index) => index).slice(0, 20) : [];
  const rows = [...shown].reverse().map((row) => [
    count(row.at), ...all.map((index) => around(share(row, index))), around(unusable(row)),
    row.drift ? row.drift.statistic.toFixed(2) : "–", row.drift?.alarm ? row.drift.what : "–",
  ]);
  const heads = ["records", ...all.map(named), "unusable",
    "drift", "alarm"];
  table($("survey-table"), "The surveys", heads, rows);
}

const unusable = (row) => ({ value: row.unusable, deviation: row.deviation });

/** The indices of the classes with the largest shares, in their own order. */
function largest(rows) {
  const sums = rows[0].classes.map((_, index) =>
    rows.reduce((sum, row) => sum + row.classes[index], 0));
  const order = sums.map((_, index) => index).sort((one, other) => sums[other] - sums[one]);
  return order.slice(0, LINES.length).sort((one, other) => one - other);
}

/** Say whether the newest steps differ from those before them. */
export function showDrift({ drift, streams }) {
  $("drift-words").hidden = !drift;
  if (!drift) return;
  const alarm = drift.newest_alarm;
  const often = `${count(Math.round(1 / drift.rate))} steps`;
  if (!alarm) {
    $("drift-words").replaceChildren(
      "No ", term("drift alarm"), ` in the newest ${count(drift.steps)} steps; the newest is at ` +
      `${drift.statistic.toFixed(2)} times the threshold.`,
    );
    return;
  }
  const of = streams.length > 1 ? ` of ${alarm.stream}` : "";
  $("drift-words").replaceChildren(
    el("span", { class: "alarm" }, `▼ The step at ${count(alarm.at)}${of} differs in ${alarm.what}`),
    ` (${alarm.statistic.toFixed(1)} times the threshold). `, term("drift alarm", "False alarms"),
    `: at most 1 in ${often}.`,
  );
}
