// How good the models are, if a share of the budget is reserved for it: accuracy, or errors.

import { drawErrors, drawQuality } from "./charts.js";
import {
  $, accuracy, around, count, exact, grouped, inUnits, meanOf, plain, table,
} from "./elements.js";

const MOST_POINTS = 80;
const TOO_NOISY = "too noisy to tell";

export function showQuality({ quality: points, streams }) {
  // Two streams count records separately, but number their releases together.
  const [axis, place] = streams.length > 1 ? ["release", "of_release"] : ["records arrived", "at"];
  const quality = points.map((point) => ({ ...point, at: point[place] }));
  const told = quality.filter((point) => (point.mae ?? point.accuracy ?? null) !== null);
  const groups = grouped(told, MOST_POINTS);
  const each = groups[0]?.length ?? 0;
  for (const part of ["newest", "more"]) $(`quality-${part}`).hidden = !quality.length;
  $("quality-chart").hidden = !told.length;
  const verdict = quality.at(-1)?.verdict;
  $("quality-verdict").textContent = verdict ? `The newest one is ${verdict.words}.` : "";
  const means = each > 1 ? ` The chart shows means of ${each} steps.` : "";
  if (quality.length && "mae" in quality[0]) {
    showErrors(quality, groups, axis, means);
    return;
  }
  const majority = quality.some((point) => point.scores?.majority);
  $("quality-words").textContent = quality.length
    ? "Each model is tested on the step after it, which it was not trained on. The accuracy is " +
      "noisy and costs a share of the budget, like a model. The band shows two standard " +
      "deviations of the noise on each side. Values above 100 % are shown as 100 %." +
      (majority ? " The dashed line is the share of the most frequent class: what a constant " +
        "answer would score. A triangle marks a drift alarm." : "") +
      means
    : "Not measured yet. With a share in [quality] of the configuration, a private accuracy is " +
      "measured at each step, from the second model on.";
  if (quality.length) {
    const newest = quality.at(-1);
    $("quality-newest").replaceChildren(...(newest.accuracy === null ? [TOO_NOISY] : [
      exact(newest.accuracy, accuracy(newest.accuracy)), ` ± ${accuracy(2 * newest.deviation)}`,
    ]));
    const alarms = quality.filter((point) => point.drift?.alarm);
    if (told.length) drawQuality($("quality-chart"), groups.map(mean), axis, alarms);
  }
  const rows = [...quality].reverse().map((point) => [
    count(point.at),
    point.accuracy === null ? TOO_NOISY : exact(point.accuracy, accuracy(point.accuracy)),
    `± ${accuracy(2 * point.deviation)}`,
    point.scores?.majority ? around(point.scores.majority) : "–",
    point.scores?.log_loss ? plain(point.scores.log_loss) : "–",
    point.drift ? point.drift.statistic.toFixed(2) : "–",
    point.drift?.alarm ? point.drift.what : "–",
  ]);
  const heads = [axis, "accuracy", "two standard deviations", "majority class", "log-loss",
    "drift", "alarm"];
  table($("quality-table"), "Private accuracy", heads, rows);
}

/** The errors of models that predict a number. */
function showErrors(quality, groups, axis, means) {
  const known = (point, name) => (point.scores?.[name] ? inUnits(point.scores[name]) : "–");
  const mae = ({ mae: value, deviation }) => ({ value, deviation });
  $("quality-words").textContent =
    "Each model is tested on the step after it, which it was not trained on. The line is the mean " +
    "absolute error, in the unit of the target; it is noisy and costs a share of the budget, like " +
    "a model. The band shows two standard deviations of the noise on each side. A triangle marks a " +
    `drift alarm.${means}`;
  const newest = quality.at(-1);
  $("quality-newest").replaceChildren(
    newest.mae === null ? TOO_NOISY : exact(newest.mae, inUnits(mae(newest))),
  );
  if (groups.length) drawErrors($("quality-chart"), groups.map((group) => ({
    at: group.at(-1).at, ...meanOf(group.map(mae)),
  })), axis, quality.filter((point) => point.drift?.alarm));
  const rows = [...quality].reverse().map((point) => [
    count(point.at), point.mae === null ? TOO_NOISY : exact(point.mae, inUnits(mae(point))),
    known(point, "rmse"),
    known(point, "constant_rmse"), point.scores?.r2 ? plain(point.scores.r2) : "–",
    point.drift ? point.drift.statistic.toFixed(2) : "–",
    point.drift?.alarm ? point.drift.what : "–",
  ]);
  const heads = [axis, "MAE", "RMSE", "RMSE of a constant", "R²", "drift", "alarm"];
  table($("quality-table"), "Private errors", heads, rows);
}

/** Average a few points; their noise is independent, so the means are less noisy. */
function mean(group) {
  const accuracies = group.map((point) => ({ value: point.accuracy, deviation: point.deviation }));
  const { value, deviation } = meanOf(accuracies);
  const known = group.map((point) => point.scores?.majority).filter(Boolean);
  const majority = known.length ? meanOf(known) : null;
  return { at: group.at(-1).at, accuracy: value, deviation, majority };
}
