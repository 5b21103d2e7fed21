// The promise in a sentence, how much of the budget is used, and the key numbers.

import { $, count, el, exact, percent, records, small, term } from "./elements.js";
import { firstAt } from "./stream.js";

const FULL = ": all that the plan will ever charge it. Nothing has run out, and no record can pay more.";

/** What the most-charged record has paid a part of; `paid_so_far` says the same. */
function ofWhat(most, { unit, contributions, period }) {
  if (unit !== "person") {
    return ` of its budget${most < 1 ? "; no record can ever pay more than 100 %." : FULL}`;
  }
  const times = contributions === 1 ? "" : `${count(contributions)} times `;
  const steps = period === 1 ? "any one step" : `any ${count(period ?? 0)} consecutive steps`;
  const within = period === null ? "" : ` within ${steps}`;
  return ` of what one record may cost, and no record can pay more. All records of a person${within}` +
    ` together never cost more than ${times}what one record may cost.`;
}

export function showPromise({ budget, protects, meaning, private: kept }, { lines }) {
  const { epsilon, delta } = budget;
  $("promise").replaceChildren(
    "All models released here, now and for ever, together reveal at most ",
    term("epsilon", "ε"), `\u00a0=\u00a0${epsilon}`,
    ...(delta ? [", ", term("delta", "δ"), `\u00a0=\u00a0${small(delta)}`] : []),
    ` about ${protects.whom}.`,
  );
  const most = Math.max(...lines.map((line) => line.paid));
  $("used").replaceChildren(
    "The most-charged record has paid ", el("strong", {}, exact(most, percent(most))),
    ofWhat(most, protects),
  );
  $("meters").replaceChildren(...lines.map((line) => meter(
    line.stream, line.paid, lines.length > 1 ? line.stream : "",
  )));
  $("meaning").textContent = meaning;
  $("warning").hidden = kept;
  $("warning").textContent =
    "NOT PRIVATE: the noise of these models comes from a known seed. No promise here holds.";
}

const MOST_NAMES = 12;

const names = (all) => all.slice(0, MOST_NAMES).join(", ") +
  (all.length > MOST_NAMES ? ` and ${count(all.length - MOST_NAMES)} more` : "");

/** What models predict, and from what, according to the public configuration. */
export function showTask({ streams }, { records: { columns, text, label, classes, target } }) {
  const from = text ? `the text in ${text}` : columns ? names(columns) : "the numbers of a record";
  const of = streams.length > 1 ? `streams ${streams.map((each) => `“${each.stream}”`).join(" and ")}`
    : `stream “${streams[0].stream}”`;
  $("task").replaceChildren(
    `Models of the ${of} predict ${label ?? (target ? "a number" : "the class")} ` +
      `(${target ? `from ${target.join(" to ")}` : names(classes)}) from ${from}.`,
  );
}

function meter(stream, used, name) {
  const bar = el("span", { class: "bar" });
  bar.style.width = `${used * 100}%`;
  const words = `Budget paid by the most-charged record of ${stream}; 100 % is planned`;
  return el("div", { class: "quiet" }, name, el("div", {
    class: "meter", role: "meter", "aria-label": words, "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-valuenow": (used * 100).toFixed(1),
  }, bar));
}

export function showFacts({ streams, releases, training, schedule }) {
  const sum = (name) => streams.reduce((total, stream) => total + stream[name], 0);
  const lacking = ({ records: arrived, next_model: at }) => Math.max(0, at - arrived);
  const next = Math.min(...streams.map(lacking));
  const first = Math.max(0, firstAt(schedule) - streams[0].records);
  $("fact-records").replaceChildren(exact(sum("records"), count(sum("records"))));
  $("fact-releases").replaceChildren(exact(releases, count(releases)));
  const late = sum("steps_waiting");
  const now = streams.some((each) => each.behind) ? `training; ${count(late)} steps wait` : "training now";
  $("fact-next").textContent = training ? now : records(releases ? next : first);
  $("fact-held").replaceChildren(exact(sum("held_records"), count(sum("held_records"))));
}
