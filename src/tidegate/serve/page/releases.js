// The list of releases, newest first, each with its card and files.

import { $, accuracy, count, el, inUnits, moment, percent, span } from "./elements.js";
import { inWords } from "./scores.js";
import { ask, save } from "./service.js";

export const PAGE = 50;

const FILES = [
  ["weights.safetensors", "Weights (safetensors)"],
  ["model.onnx", "Model (ONNX)"],
  ["card.md", "Card (Markdown)"],
];

let newest = -1; // the numbers of the newest and the oldest release shown
let oldest = 0;
let most = 0; // how many releases to show

/** Show the newest of `total` releases. */
export async function showReleases(total) {
  newest = total - 1;
  oldest = total;
  most = 0;
  $("releases").replaceChildren();
  await showOlder();
}

export async function showOlder() {
  const from = Math.max(0, oldest - PAGE);
  const page = oldest ? await ask(`/v1/releases?from=${from}&limit=${oldest - from}`) : null;
  const added = (page?.releases ?? []).reverse();
  $("releases").append(...added.map((each) => item(each)));
  oldest = from;
  most += PAGE;
  showButton();
}

function showButton() {
  $("older").hidden = oldest === 0;
  $("older").textContent = `Show ${Math.min(PAGE, oldest)} older`;
}

/** Add new releases at the top, and remove as many at the bottom. */
export async function showNewer(total) {
  if (total - 1 - newest > PAGE) {
    await showReleases(total);
    return;
  }
  const { releases } = await ask(`/v1/releases?from=${newest + 1}&limit=${PAGE}`);
  for (const release of releases) $("releases").prepend(item(release, "fresh"));
  newest += releases.length;
  while ($("releases").childElementCount > most) {
    $("releases").lastElementChild.remove();
    oldest += 1;
  }
  showButton();
}

function item(release, kind = "") {
  const { number } = release;
  const summary = el(
    "summary", {},
    el("span", { class: "number" }, `◆ ${count(number)}`),
    el("span", { class: "read" }, `after ${count(release.at)} records`),
    el("time", { datetime: release.time, class: "when" }, moment(release.time)),
  );
  const message = el("p", { class: "error", role: "alert" });
  const files = FILES.map(([file, name]) => el("button", {
    type: "button",
    "aria-label": `Download ${name} of release ${number}`,
    onclick: () => download(release, file, message),
  }, `↓ ${name}`));
  return el(
    "li", { class: kind, "data-number": number },
    el("details", {}, summary, facts(release), el("p", { class: "row" }, ...files), message),
  );
}

function facts({ card, hash, trained_on: trained }) {
  const unit = "mu" in card ? "mu" : "epsilon";
  const before = card.evaluation?.step_before;
  const holdout = card.evaluation?.holdout;
  const rows = [
    ["Model", trained],
    ["Released after", `${count(card.at)} records`],
    ["Last fit on", `records ${span(card.start, card.stop)}`],
    card.started_from == null
      ? ["Refines", card.prior === null ? "nothing: a base" : `the model of fit ${count(card.prior)}`]
      : ["Starts from", `the model of fit ${count(card.started_from)}`],
    [card.emphasis?.length > 1 ? "Cost of the newest" : "Cost per record", `${percent(card.share_rounded_down)} of its budget ` +
      `(${unit === "mu" ? "μ" : "ε"} = ${card[unit].toPrecision(3)})`],
    ...(before ? [["Model before", `${tried(before)} on the step after it`]] : []),
    ...(before?.scores ? [["Its scores", inWords(before.scores)]] : []),
    ...(holdout ? [["On the holdout", holdout.scores ? inWords(holdout.scores)
      : tried({ ...holdout, deviation: 0 })]] : []),
    ["Learner", [card.learner?.kind, card.loss?.kind].filter(Boolean).join(", ")],
    ["Hash", el("code", {}, hash)],
  ];
  return el("dl", {}, ...rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

/** How good a model was: its accuracy, or its mean absolute error. */
const tried = ({ accuracy: right, mae, deviation }) => (mae == null
  ? `${accuracy(right)}${deviation ? ` ± ${accuracy(2 * deviation)}` : ""} correct`
  : `off by ${inUnits({ value: mae, deviation })} (MAE)`);

async function download(release, file, message) {
  message.textContent = "";
  const [, stem, ending] = file.match(/^(.*)(\..*)$/);
  const path = `/v1/releases/${release.number}/${file}`;
  await save(path, `release-${release.number}-${stem}${ending}`).catch((error) => {
    message.textContent = error.message;
  });
}
