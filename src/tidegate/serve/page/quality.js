// The private accuracy of the models, if a share of the budget is reserved for it.

import { drawQuality } from "./charts.js";
import { $, accuracy, count, exact, table } from "./elements.js";

const MOST_POINTS = 80;

export function showQuality({ quality: points, streams }) {
  // Two streams count records separately, but number their releases together.
  const [axis, place] = streams.length > 1 ? ["release", "of_release"] : ["records arrived", "at"];
  const quality = points.map((point) => ({ ...point, at: point[place] }));
  const each = Math.ceil(quality.length / MOST_POINTS);
  $("quality-words").textContent = quality.length
    ? "Each model is tested on the step after it, which it was not trained on. The accuracy is " +
      "noisy and costs a share of the budget, like a model. The band shows two standard " +
      "deviations of the noise on each side. Values above 100 % are shown as 100 %." +
      (each > 1 ? ` The chart shows means of ${each} steps.` : "")
    : "Not measured yet. With a share in [quality] of the configuration, a private accuracy is " +
      "measured at each step, from the second model on.";
  for (const part of ["newest", "chart", "more"]) $(`quality-${part}`).hidden = !quality.length;
  if (quality.length) {
    const newest = quality.at(-1);
    $("quality-newest").replaceChildren(
      exact(newest.accuracy, accuracy(newest.accuracy)), ` ± ${accuracy(2 * newest.deviation)}`,
    );
    drawQuality($("quality-chart"), means(quality, each), axis);
  }
  const rows = [...quality].reverse().map((point) => [
    count(point.at), exact(point.accuracy, accuracy(point.accuracy)),
    `± ${accuracy(2 * point.deviation)}`,
  ]);
  const heads = [axis, "accuracy", "two standard deviations"];
  table($("quality-table"), "Private accuracy", heads, rows);
}

/** Average each few points; their noise is independent, so the means are less noisy. */
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
