// Helpers of all parts of the page: formatting numbers and creating elements.

import { TERMS } from "./glossary.js";

export const $ = (id) => document.getElementById(id);

export const count = (number) => number.toLocaleString("en");

export const records = (number) => `${count(number)} record${number === 1 ? "" : "s"}`;

/** A span of records as text, both ends included. */
export const span = (start, stop) => `${count(start)} to ${count(stop - 1)}`;

/** A share of the budget in percent, rounded up so that it is never understated. */
export const percent = (share) => `${+(Math.ceil(share * 1000 - 1e-9) / 10).toFixed(1)} %`;

/** An accuracy or a probability in percent, clipped to 0 and 100 because it may be noisy. */
export const accuracy = (share) => `${(Math.min(1, Math.max(0, share)) * 100).toFixed(1)} %`;

/** A noisy share in percent with two standard deviations; it may be below 0 or above 100. */
export const around = ({ value, deviation }) =>
  `${(value * 100).toFixed(1)} %${deviation ? ` ± ${(200 * deviation).toFixed(1)}` : ""}`;

/** A noisy number with two standard deviations. */
export const plain = ({ value, deviation }) =>
  `${value.toFixed(3)}${deviation ? ` ± ${(2 * deviation).toFixed(3)}` : ""}`;

/** A noisy number in any unit, with two standard deviations; as many digits as the noise allows. */
export const inUnits = ({ value, deviation }) => {
  if (!deviation) return String(+value.toPrecision(4));
  const digits = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(2 * deviation))));
  return `${value.toFixed(digits)} ± ${(2 * deviation).toFixed(digits)}`;
};

/** Average each few items into one, so that a chart has at most `most` points. */
export function grouped(items, most) {
  const each = Math.max(1, Math.ceil(items.length / most));
  return Array.from({ length: Math.ceil(items.length / each) }, (_, index) =>
    items.slice(index * each, (index + 1) * each));
}

/** The mean of independent noisy numbers, with its deviation. */
export function meanOf(measures) {
  const sum = (value) => measures.reduce((total, one) => total + value(one), 0);
  return {
    value: sum((one) => one.value) / measures.length,
    deviation: Math.sqrt(sum((one) => one.deviation ** 2)) / measures.length,
  };
}

export const moment = (time) =>
  new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** A small number as text, as a power of ten if that is shorter: 0.000001 is 10⁻⁶. */
export const small = (number) => {
  const power = Math.log10(number);
  if (!Number.isInteger(power) || power > -3) return number.toPrecision(3).replace(/\.?0+$/, "");
  return `10⁻${[...String(-power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
};

/** Create an element. Text is inserted as text, so no response of the service is ever run. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A term of the glossary, with its definition as a tooltip. */
export const term = (name, text = name) => el("abbr", { title: TERMS[name] }, text);

/** Give the terms in page.html their tooltips, and list all definitions at the bottom. */
export function showTerms() {
  for (const each of document.querySelectorAll("abbr[data-term]")) {
    each.title = TERMS[each.dataset.term];
  }
  const rows = Object.entries(TERMS).sort(([one], [other]) => one.localeCompare(other));
  $("terms").replaceChildren(
    ...rows.flatMap(([name, words]) => [el("dt", {}, name), el("dd", {}, words)]),
  );
}

/** A number as text, with its exact value for programs. */
export const exact = (value, text) => el("data", { value }, text);

/** Fill an element with a table. The element itself is kept, so it keeps its focus. */
export function table(root, caption, heads, rows) {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))));
  if (root.role) root.ariaLabel = caption;
  root.replaceChildren(el(
    "table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body),
  ));
}
