// A form to try the newest model: a field for each column, or one for all numbers or text.

import { columnFields, columnValue } from "./columns.js";
import { $, accuracy, count, el } from "./elements.js";
import { post } from "./service.js";

const MOST_FIELDS = 12; // more columns than this are entered as one list of numbers

/** Show fields for a record, as the public configuration or the newest card describes it. */
export function showForm(asked, card) {
  const random = el("button", { type: "button", onclick: fillIn }, "Fill in random numbers");
  $("predict").replaceChildren(
    el("div", { class: "fields" }, ...fields(asked, card)),
    el("p", { class: "row" },
      el("button", { type: "submit", class: "main" }, "Predict"),
      ...(asked.text || asked.kinds || !$("predict").dataset.width ? [] : [random])),
  );
  $("predict").onsubmit = (event) => {
    event.preventDefault();
    predict(asked.classes, Boolean(asked.kinds));
  };
}

function fields({ columns, kinds, text }, card) {
  if (kinds) return columnFields(kinds);
  const area = { rows: 3, required: true, spellcheck: "false" };
  const number = { inputmode: "decimal", autocomplete: "off", required: true };
  const width = columns?.length ?? widthOf(card);
  $("predict").dataset.width = width;
  if (text) return [field("text", text, el("textarea", area))];
  if (columns && width <= MOST_FIELDS) {
    return columns.map((name) => field("number", name, el("input", number)));
  }
  const name = `${width ? `${count(width)} numbers` : "Numbers"}, separated by commas`;
  return [field("list", name, el("textarea", { ...area, placeholder: "0.5, -1.25, 3" }))];
}

/** The number of values in a record, if it follows from the card's feature maps; else "". */
function widthOf(card) {
  const kinds = card?.features.map((step) => step.kind) ?? ["unknown"];
  if (kinds.some((kind) => !["AppendIntercept", "NormClip"].includes(kind))) return "";
  const constants = kinds.filter((kind) => kind === "AppendIntercept").length;
  return card.shape[0] - constants - (card.transform ? 1 : 0); // a transform adds a column too
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

/** The body for /v1/predict. */
function written(ofAnyKind) {
  if (ofAnyKind) {
    const values = inputs().map((input) => [input.name, columnValue(input)]);
    return { records: [Object.fromEntries(values)] };
  }
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
  if (!Number.isFinite(value)) throw new Error(`“${text}” is not a number: enter one such as 0.5`);
  return value;
}

async function predict(classes, ofAnyKind) {
  try {
    const answer = await post("/v1/predict", written(ofAnyKind));
    $("prediction").replaceChildren(...result(answer, classes));
  } catch (error) {
    $("prediction").replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function result({ release, labels, probabilities, predictions, target }, classes) {
  if (predictions) {
    const number = el("strong", {}, String(+predictions[0].toPrecision(6)));
    const range = ` (models predict numbers from ${target.join(" to ")})`;
    return [el("p", {}, "Release ", count(release), " predicts ", number, range, ".")];
  }
  const rows = probabilities[0]
    .map((probability, index) => ({ probability, name: String(classes[index]) }))
    .sort((one, other) => other.probability - one.probability)
    .slice(0, 10);
  const label = el("strong", {}, String(labels[0]));
  const sentence = el("p", {}, "Release ", count(release), " predicts ", label, ".");
  return [sentence, el("dl", { class: "bars" }, ...rows.flatMap(bar))];
}

function bar({ probability, name }) {
  const filled = el("span", { class: "bar" });
  filled.style.width = `${probability * 100}%`;
  const value = el("dd", {}, el("span", { class: "rail" }, filled), accuracy(probability));
  return [el("dt", {}, name), value];
}
