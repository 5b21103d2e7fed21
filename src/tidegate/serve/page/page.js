// The page: fetches data from the service, shows it, and updates it on server-sent events.

import { $, count, showTerms } from "./elements.js";
import { showHeld } from "./held.js";
import { showLedger, showLedgerTable } from "./ledger.js";
import { showForm } from "./predict.js";
import { showFacts, showPromise, showTask } from "./promise.js";
import { showQuality } from "./quality.js";
import { showNewer, showOlder, showReleases } from "./releases.js";
import { showScores } from "./scores.js";
import { Refused, ask, events, token, tokenFromAddress } from "./service.js";
import { showStreams } from "./stream.js";
import { showDrift, showSurvey } from "./survey.js";

const fetched = { status: null, plan: null, ledger: null, strip: null };

/** Show everything that a new release changes. */
function show() {
  const { status, plan, ledger, strip } = fetched;
  if (!status) return;
  showPromise(status, ledger);
  showTask(status, plan);
  showLedger(ledger, strip);
  showQuality(status);
  showScores(status, plan);
  showSurvey(status, plan);
  showProgress();
}

/** Show everything that new records change. */
function showProgress() {
  const { status, plan, ledger } = fetched;
  for (const line of ledger.lines) {
    line.records = status.streams.find((each) => each.stream === line.stream).records;
  }
  showWords(status);
  showFacts(status);
  showStreams(status, plan);
  showLedgerTable(ledger);
  showHeld(status);
  showDrift(status);
}

function showWords({ releases, stopped }) {
  const none = stopped
    ? `None: ${stopped.message}.`
    : "None yet. The first comes as soon as enough records have arrived.";
  $("releases-words").textContent = releases
    ? `${count(releases)} so far, the newest first. You may share them with anyone.`
    : none;
  $("predict-words").textContent = releases
    ? "What you enter is not stored."
    : "There is no model yet.";
}

// --- updates

const pause = (seconds) => new Promise((ready) => setTimeout(ready, seconds * 1000));

function connection(state, text) {
  $("connection").dataset.state = state;
  $("connection").textContent = text;
}

/** Fetch everything that a new release changes. */
async function refresh() {
  const buckets = Math.min(240, Math.max(60, Math.round(innerWidth / 5)));
  // The status comes first. The rest must not be older than it, because it is not fetched again
  // before the next release. If it is newer, an event about that release follows.
  const status = await ask("/v1/status");
  const paths = ["plan", "ledger", `ledger/strip?buckets=${buckets}`];
  const rest = await Promise.all(paths.map((path) => ask(`/v1/${path}`)));
  [fetched.status, fetched.plan, fetched.ledger, fetched.strip] = [status, ...rest];
  open(true);
  show();
}

/** Show the current data, then every change. */
async function listen() {
  await refresh();
  await showReleases(fetched.status.releases);
  await showBox();
  connection("live", "Live");
  wait = 1;
  for await (const [event, data] of events("/v1/releases/events")) {
    // A progress event is sent at once and after every release, so nothing is missed. Skip events
    // that are older than the data on the page.
    if (event !== "progress" || arrived(data) < arrived(fetched.status)) continue;
    if (data.releases > fetched.status.releases || done(data) > done(fetched.status)) {
      await refresh();
      await showNewer(fetched.status.releases);
      await showBox();
    } else {
      fetched.status = { ...fetched.status, ...data };
      showProgress();
    }
  }
}

const done = ({ streams }) => streams.reduce((sum, stream) => sum + stream.done, 0);

const arrived = ({ streams }) => streams.reduce((sum, stream) => sum + stream.records, 0);

/** Show the form to try the newest model, as soon as there is one: its card gives the width. */
async function showBox() {
  if ($("predict").childElementCount || !fetched.status.releases) return;
  showForm(fetched.plan.records, (await ask("/v1/releases/latest")).card);
}

/** Stay connected as long as the token is valid. */
let wait = 1; // seconds before the next attempt; doubled after each failure
async function run() {
  for (; token.get(); wait = Math.min(wait * 2, 15)) {
    try {
      await listen();
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        token.forget();
        $("authentication-error").textContent =
          "This token is not valid, or lacks the scope “read”. Ask the operator for another one.";
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
