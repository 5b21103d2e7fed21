// The raw records that are held now, and why.

import { $, el, exact, records, span } from "./elements.js";

export function showHeld({ streams }) {
  $("held").replaceChildren(...streams.flatMap((stream) => {
    const name = streams.length > 1 ? ` of “${stream.stream}”` : "";
    const bar = el("span", { class: "bar" });
    const gone = stream.held_from / Math.max(1, stream.records);
    bar.style.left = `${gone * 100}%`;
    bar.style.width = `${(1 - gone) * 100}%`;
    const why = stream.held_records
      ? `Records ${span(stream.held_from, stream.records)}${name}: ${stream.held_because}.`
      : `None${name}.`;
    return [
      el("p", { class: "big" }, exact(stream.held_records, records(stream.held_records))),
      el("div", { class: "rail", "aria-hidden": "true" }, bar),
      el("p", {}, why),
      el("p", {}, `Deleted so far${name}: ${records(stream.held_from)}.`),
    ];
  }));
}
