// The releases, the newest first: each with its card and its files.

import { $, accuracy, count, el, moment, percent, span } from "./elements.js";
import { ask, save } from "./service.js";

export const PAGE = 50;

const FILES = [
  ["weights.safetensors", "Weights (safetensors)"],
  ["model.onnx", "Model (ONNX)"],
  ["card.md", "Card (Markdown)"],
];

let newest = -1; // the numbers of the newest and the oldest one shown
let oldest = 0;
let most = 0; // how many have been asked for

/** Show the newest releases of all that there are. */
export async function showReleases(total) {
  newest = total - 1;
  oldest = total;
  most = 0;
  $("releases").replaceChildren();
  await showOlder();
}

export async function showOlder() {
  const from = Math.max(0, oldest - PAGE);
  const found = oldest ? await ask(`/v1/releases?from=${from}&limit=${oldest - from}`) : null;
  const added = (found?.releases ?? []).reverse();
  $("releases").append(...added.map((each) => item(each)));
  oldest = from;
  most += PAGE;
  showButton();
}

function showButton() {
  $("older").hidden = oldest === 0;
  $("older").textContent = `Show ${Math.min(PAGE, oldest)} older`;
}

/** Put the releases on top that have come since; the list gets no longer than was asked for. */
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
  const said = el("p", { class: "error", role: "alert" });
  const files = FILES.map(([file, name]) => el("button", {
    type: "button",
    "aria-label": `Download ${name} of release ${number}`,
    onclick: () => download(release, file, said),
  }, `↓ ${name}`));
  return el(
    "li", { class: kind, "data-number": number },
    el("details", {}, summary, facts(release), el("p", { class: "row" }, ...files), said),
  );
}

function facts({ card, hash, trained_on: trained }) {
  const unit = "mu" in card ? "mu" : "epsilon";
  const before = card.evaluation?.step_before;
  const holdout = card.evaluation?.holdout;
  const rows = [
    ["Is", trained],
    ["Made when", `${count(card.at)} records had arrived`],
    ["Read for it", `records ${span(card.start, card.stop)}`],
    ["Refines", card.prior === null ? "nothing: a base" : `the model of fit ${count(card.prior)}`],
    [card.emphasis?.length ? "Costs the newest" : "Costs them", `${percent(card.share_rounded_down)} of their budget ` +
      `(${unit === "mu" ? "μ" : "ε"} = ${card[unit].toPrecision(3)})`],
    ...(before ? [["The one before", `right on ${accuracy(before.accuracy)} ± ` +
      `${accuracy(2 * before.deviation)} of the step that followed it`]] : []),
    ...(holdout ? [["On public records", `right on ${accuracy(holdout.accuracy)}`]] : []),
    ["Learner", [card.learner?.kind, card.loss?.kind].filter(Boolean).join(", ")],
    ["Hash", el("code", {}, hash)],
  ];
  return el("dl", {}, ...rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

async function download(release, file, said) {
  said.textContent = "";
  const [, stem, ending] = file.match(/^(.*)(\..*)$/);
  const path = `/v1/releases/${release.number}/${file}`;
  await save(path, `release-${release.number}-${stem}${ending}`).catch((error) => {
    said.textContent = error.message;
  });
}
