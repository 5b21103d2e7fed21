// How good the models are, as far as it was paid for.

import { drawQuality } from "./charts.js";
import { $, accuracy, count, exact, table } from "./elements.js";

const MOST_POINTS = 80;

export function showQuality({ quality: told, streams }) {
  // Two streams count their records apart: what both have in common is the order of the releases.
  const [axis, place] = streams.length > 1 ? ["release", "of_release"] : ["records arrived", "at"];
  const quality = told.map((point) => ({ ...point, at: point[place] }));
  const each = Math.ceil(quality.length / MOST_POINTS);
  $("quality-words").textContent = quality.length
    ? "Each model is tried on the step that follows it, which it has not read. The answer is " +
      "noised and paid for like a model; the band is two standard deviations of that noise to " +
      "each side. What the noise lifts above 100 % is shown as 100 %." +
      (each > 1 ? ` The chart shows means of ${each} steps.` : "")
    : "Nothing is known about it yet. A [quality] share in the configuration buys a private " +
      "accuracy at each step, from the second model on.";
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
  const heads = [axis, "accuracy", "uncertain by"];
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
