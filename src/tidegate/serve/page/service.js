// All that the page says to the service: with the token of this tab, to the server it came from.

const KEPT = "tidegate-token";
const SILENCE = 40_000; // milliseconds after which a server that says nothing is taken for gone

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** Take a token out of the address (#token=...), where it would stay; whether there was one. */
export function tokenFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return false;
  token.set(found);
  history.replaceState(null, "", location.pathname);
  return true;
}

/** The service said no. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, options = {}) {
  const headers = { Authorization: `Bearer ${token.get()}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, told.error ?? `the server answered ${answer.status}`);
}

export const ask = async (path) => (await send(path)).json();

export const post = async (path, body) => {
  const headers = { "Content-Type": "application/json" };
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
};

/** Save a file: fetched with the token, which a plain link could not send. */
export async function save(path, name) {
  const address = URL.createObjectURL(await (await send(path)).blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Server-sent events as they come: [event, data]. EventSource could not send the token. */
export async function* events(path) {
  const gone = new AbortController();
  const answer = await send(path, { signal: gone.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ; ) {
    const silent = setTimeout(() => gone.abort(), SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    text += value.replaceAll("\r", "");
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const told = { event: "message", data: "" };
      for (const line of part.split("\n")) {
        const [, name, said] = line.match(/^(event|data): ?(.*)$/) ?? [];
        if (name === "data") told.data += said;
        else if (name) told.event = said;
      }
      if (told.data) yield [told.event, JSON.parse(told.data)];
    }
  }
}
