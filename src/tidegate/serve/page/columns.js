// The fields of a record whose columns have kinds. A field that is left empty is a missing value; if
// its column has none, it must be filled in.

import { el } from "./elements.js";

const MOST_OPTIONS = 300; // a longer list of values is typed, not chosen

/** A field for each column, with its kind. */
export const columnFields = (kinds) => kinds.map((column) => {
  const input = (FIELDS[column.kind] ?? typed)(column);
  input.name = column.name;
  input.dataset.kind = column.kind;
  input.required = column.gaps === false;
  const words = el("span", {}, column.name, el("small", {}, ` ${hint(column)}`));
  return el("label", {}, words, input);
});

/** The value of a field, as /v1/predict takes it. */
export function columnValue(input) {
  const text = input.value.trim();
  if (text === "") return null;
  if (input.dataset.kind === "vector") return text.split(/[\s,;]+/).filter(Boolean).map(Number);
  if (input.dataset.kind === "number" && !Number.isFinite(Number(text))) {
    throw new Error(`“${text}” is not a number: enter one such as 0.5 for ${input.name}`);
  }
  return text;
}

const FIELDS = {
  number: ({ low, high }) => el("input", {
    inputmode: "decimal", autocomplete: "off", placeholder: `${low} to ${high}`,
  }),
  category: (column) => (column.values && column.values.length <= MOST_OPTIONS
    ? choice([...column.values.map((value) => [value, value]), ...others(column)], column)
    : typed(column)),
  flag: (column) => choice([["yes", "yes"], ["no", "no"]], column),
  time: () => el("input", { type: "datetime-local", step: 1 }),
  text: () => el("textarea", { rows: 3, spellcheck: "false" }),
  vector: ({ size }) => el("textarea", {
    rows: 3, spellcheck: "false", placeholder: `${size} numbers, separated by commas`,
  }),
};

function typed() {
  return el("input", { autocomplete: "off", spellcheck: "false" });
}

/** The entry for a value that is not listed, if the column may have one. */
const others = (column) => (column.others === false ? [] : [["\u00a0other", "another value"]]);

/** A list to choose from; the first entry is a missing value, or none yet. */
function choice(options, { gaps }) {
  const entries = [["", gaps === false ? "choose" : "missing"], ...options];
  return el("select", {}, ...entries.map(([value, name]) => el("option", { value }, name)));
}

function hint({ kind, low, high, values, hash, parts, size, log }) {
  if (kind === "number") return `number from ${low} to ${high}${log ? ", by logarithm" : ""}`;
  if (kind === "category") return values ? `one of ${values.length} values` : `${hash} buckets`;
  if (kind === "time") return `time: ${parts.join(", ")}`;
  if (kind === "vector") return `${size} numbers`;
  return kind;
}
