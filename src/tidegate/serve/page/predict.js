// A box to try the newest model in: a field for each column, or one for numbers or text.

import { $, accuracy, count, el } from "./elements.js";
import { classes } from "./releases.js";
import { post } from "./service.js";

const MOST_FIELDS = 12; // more columns than this are written as one list of numbers

/** Ask for what a record is made of, as the public configuration says it. */
export function showForm(known) {
  const columns = known?.columns ?? [];
  const fields = known?.text
    ? [field("text", known.text, el("textarea", { rows: 3, required: true }))]
    : columns.length && columns.length <= MOST_FIELDS
      ? columns.map((name) => field("number", name, el("input", { inputmode: "decimal", required: true, value: "0" })))
      : [field("list", columns.length ? `${count(columns.length)} numbers, with commas between` : "Numbers, with commas between", el("textarea", { rows: 3, required: true, placeholder: "0.5, -1.25, 3" }))];
  $("predict").replaceChildren(
    el("div", { class: "fields" }, ...fields),
    el("button", { type: "submit", class: "main" }, "Predict"),
  );
  $("predict").onsubmit = (event) => {
    event.preventDefault();
    predict();
  };
}

function field(kind, name, input) {
  input.dataset.kind = kind;
  input.name = name;
  return el("label", {}, el("span", {}, name), input);
}

/** The record as /v1/predict takes it. */
function written() {
  const inputs = [...$("predict").querySelectorAll("[data-kind]")];
  if (inputs[0].dataset.kind === "list") return { x: [inputs[0].value.split(/[\s,;]+/).filter(Boolean).map(number)] };
  const pairs = inputs.map((input) => [
    input.name, input.dataset.kind === "text" ? input.value : number(input.value),
  ]);
  return { records: [Object.fromEntries(pairs)] };
}

function number(text) {
  const value = Number(text.trim() === "" ? "none" : text);
  if (!Number.isFinite(value)) throw new Error(`“${text}” is not a number`);
  return value;
}

async function predict() {
  try {
    const told = await post("/v1/predict", written());
    $("prediction").replaceChildren(...result(told));
  } catch (error) {
    $("prediction").replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function result(told) {
  const names = classes();
  const rows = told.probabilities[0]
    .map((probability, index) => ({ probability, name: String(names[index] ?? index) }))
    .sort((one, other) => other.probability - one.probability)
    .slice(0, 10);
  return [
    el("p", {}, "Release ", count(told.release), " says ", el("strong", {}, String(told.labels[0])), "."),
    el("dl", { class: "bars" }, ...rows.flatMap(({ probability, name }) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${probability * 100}%`;
      return [
        el("dt", {}, name),
        el("dd", {}, el("span", { class: "rail" }, bar), accuracy(probability)),
      ];
    })),
  ];
}
