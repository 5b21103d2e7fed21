// The page: asks the service what is so, shows it, and keeps it up to date by its events.

import { $, count, showTerms } from "./elements.js";
import { showHeld } from "./held.js";
import { showLedger, showLedgerTable } from "./ledger.js";
import { showForm } from "./predict.js";
import { showFacts, showPromise, showTask } from "./promise.js";
import { showQuality } from "./quality.js";
import { showNewer, showOlder, showReleases } from "./releases.js";
import { Refused, ask, events, token, tokenFromAddress } from "./service.js";
import { showStreams } from "./stream.js";

const known = { status: null, plan: null, ledger: null, strip: null };

/** Show all that a release changes. */
function show() {
  const { status, plan, ledger, strip } = known;
  if (!status) return;
  showPromise(status, ledger);
  showTask(status, plan);
  showLedger(ledger, strip);
  showQuality(status);
  showWords(status);
  showProgress();
}

/** Show what records change that arrive. */
function showProgress() {
  const { status, plan, ledger } = known;
  for (const line of ledger.lines) {
    line.records = status.streams.find((each) => each.stream === line.stream).records;
  }
  showFacts(status);
  showStreams(status, plan);
  showLedgerTable(ledger);
  showHeld(status);
}

function showWords({ releases }) {
  $("releases-words").textContent = releases
    ? `${count(releases)} so far, the newest first. Each may be given to anyone.`
    : "None yet. The first comes as soon as enough records have arrived.";
  $("predict-words").textContent = releases
    ? "What you write is answered and not kept."
    : "There is no model yet.";
}

// --- how it is kept up to date

const pause = (seconds) => new Promise((ready) => setTimeout(ready, seconds * 1000));

function connection(state, text) {
  $("connection").dataset.state = state;
  $("connection").textContent = text;
}

/** Ask for all that a release changes. */
async function refresh() {
  const buckets = Math.min(240, Math.max(60, Math.round(innerWidth / 5)));
  // How far things are comes first. The rest must not be older, for it is not asked for again
  // before the next release; where it is newer, news of that is on its way.
  const status = await ask("/v1/status");
  const paths = ["plan", "ledger", `ledger/strip?buckets=${buckets}`];
  const found = await Promise.all(paths.map((path) => ask(`/v1/${path}`)));
  [known.status, known.plan, known.ledger, known.strip] = [status, ...found];
  open(true);
  show();
}

/** Show what is so, then what changes. */
async function listen() {
  await refresh();
  await showReleases(known.status.releases);
  await showBox();
  connection("live", "Live");
  wait = 1;
  for await (const [event, data] of events("/v1/releases/events")) {
    // Progress is told at once, and again after every release, so that nothing is missed. What
    // was said before the last answer is old.
    if (event !== "progress" || arrived(data) < arrived(known.status)) continue;
    if (data.releases > known.status.releases) {
      await refresh();
      await showNewer(known.status.releases);
      await showBox();
    } else {
      known.status = { ...known.status, ...data };
      showProgress();
    }
  }
}

const arrived = ({ streams }) => streams.reduce((sum, stream) => sum + stream.records, 0);

/** The box to try the newest model in, made once there is one: its card says the width. */
async function showBox() {
  if ($("predict").childElementCount || !known.status.releases) return;
  showForm(known.plan.records, (await ask("/v1/releases/latest")).card);
}

/** Stay connected for as long as there is a token that is good. */
let wait = 1; // seconds, longer each time that it is in vain
async function run() {
  for (; token.get(); wait = Math.min(wait * 2, 15)) {
    try {
      await listen();
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        token.forget();
        $("authentication-error").textContent = "This token is not good for reading, or not any more.";
        break;
      }
      console.warn(error.message);
    }
    connection("gone", "Reconnecting");
    await pause(wait);
  }
  open(false);
}

function open(inside) {
  $("main").hidden = !inside;
  $("authentication").hidden = inside;
  $("leave").hidden = !inside;
  if (inside) return;
  connection("waiting", "No token");
  $("token").focus();
}

// --- the page's own buttons

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  const dark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").ariaLabel = `${dark ? "Light" : "Dark"} colours`;
  show();
}

$("theme").onclick = () => {
  const next = $("theme").textContent.toLowerCase();
  localStorage.setItem("tidegate-theme", next);
  theme(next);
};
matchMedia("(prefers-color-scheme: dark)").onchange = () =>
  theme(localStorage.getItem("tidegate-theme"));
$("older").onclick = showOlder;
$("leave").onclick = () => {
  token.forget();
  location.reload();
};
$("authentication-form").onsubmit = (event) => {
  event.preventDefault();
  token.set($("token").value.trim());
  $("token").value = $("authentication-error").textContent = "";
  run();
};

onhashchange = () => tokenFromAddress() && location.reload();

theme(localStorage.getItem("tidegate-theme"));
showTerms();
tokenFromAddress();
run();
