// A box to try the newest model in: a field for each column, or one for numbers or text.

import { $, accuracy, count, el } from "./elements.js";
import { post } from "./service.js";

const MOST_FIELDS = 12; // more columns than this are written as one list of numbers

/** Ask for what a record is made of, as the public configuration says it, or the newest card. */
export function showForm(asked, card) {
  const random = el("button", { type: "button", onclick: fillIn }, "Fill in random numbers");
  $("predict").replaceChildren(
    el("div", { class: "fields" }, ...fields(asked, card)),
    el("p", { class: "row" },
      el("button", { type: "submit", class: "main" }, "Predict"),
      ...(asked.text || !$("predict").dataset.width ? [] : [random])),
  );
  $("predict").onsubmit = (event) => {
    event.preventDefault();
    predict(asked.classes);
  };
}

function fields({ columns, text }, card) {
  const area = { rows: 3, required: true, spellcheck: "false" };
  const number = { inputmode: "decimal", autocomplete: "off", required: true };
  const width = columns?.length ?? widthOf(card);
  $("predict").dataset.width = width;
  if (text) return [field("text", text, el("textarea", area))];
  if (columns && width <= MOST_FIELDS) {
    return columns.map((name) => field("number", name, el("input", number)));
  }
  const name = `${width ? `${count(width)} numbers` : "Numbers"} with commas between them`;
  return [field("list", name, el("textarea", { ...area, placeholder: "0.5, -1.25, 3" }))];
}

/** How many numbers a record has, where the card's feature maps let one tell; else "". */
function widthOf(card) {
  const kinds = card?.features.map((step) => step.kind) ?? ["unknown"];
  if (kinds.some((kind) => !["AppendIntercept", "NormClip"].includes(kind))) return "";
  return card.shape[0] - kinds.filter((kind) => kind === "AppendIntercept").length;
}

function field(kind, name, input) {
  input.dataset.kind = kind;
  input.name = name;
  return el("label", {}, el("span", {}, name), input);
}

const inputs = () => [...$("predict").querySelectorAll("[data-kind]")];

function fillIn() {
  const drawn = () => (Math.random() * 2 - 1).toFixed(2);
  for (const input of inputs()) {
    const width = input.dataset.kind === "list" ? Number($("predict").dataset.width) : 1;
    input.value = Array.from({ length: width }, drawn).join(", ");
  }
}

/** The record as /v1/predict takes it. */
function written() {
  const [first] = inputs();
  if (first.dataset.kind === "list") {
    return { x: [first.value.split(/[\s,;]+/).filter(Boolean).map(numberIn)] };
  }
  const pairs = inputs().map((input) => [
    input.name, input.dataset.kind === "text" ? input.value : numberIn(input.value),
  ]);
  return { records: [Object.fromEntries(pairs)] };
}

function numberIn(text) {
  const value = text.trim() === "" ? NaN : Number(text);
  if (!Number.isFinite(value)) throw new Error(`“${text}” is not a number`);
  return value;
}

async function predict(classes) {
  try {
    const told = await post("/v1/predict", written());
    $("prediction").replaceChildren(...result(told, classes));
  } catch (error) {
    $("prediction").replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function result({ release, labels, probabilities }, classes) {
  const rows = probabilities[0]
    .map((probability, index) => ({ probability, name: String(classes[index]) }))
    .sort((one, other) => other.probability - one.probability)
    .slice(0, 10);
  const said = ["Release ", count(release), " says ", el("strong", {}, String(labels[0])), "."];
  return [el("p", {}, ...said), el("dl", { class: "bars" }, ...rows.flatMap(bar))];
}

function bar({ probability, name }) {
  const filled = el("span", { class: "bar" });
  filled.style.width = `${probability * 100}%`;
  const told = el("dd", {}, el("span", { class: "rail" }, filled), accuracy(probability));
  return [el("dt", {}, name), told];
}
