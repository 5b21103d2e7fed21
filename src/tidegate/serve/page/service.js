// All requests of the page, with the token of this tab, to the server that the page came from.

const KEPT = "tidegate-token";
const SILENCE = 40_000; // milliseconds without data after which the connection counts as lost

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** Move a token from the address (#token=...) into this tab; whether there was one. */
export function tokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return false;
  token.set(given);
  history.replaceState(null, "", location.pathname);
  return true;
}

/** An error response of the service. */
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
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.error ?? `the server answered ${answer.status}`);
}

export const ask = async (path) => (await send(path)).json();

export const post = async (path, body) => {
  const headers = { "Content-Type": "application/json" };
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
};

/** Download a file with the token, which a plain link could not send. */
export async function save(path, name) {
  const address = URL.createObjectURL(await (await send(path)).blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Server-sent events as [event, data]. EventSource could not send the token. */
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
      const message = { event: "message", data: "" };
      for (const line of part.split("\n")) {
        const [, field, content] = line.match(/^(event|data): ?(.*)$/) ?? [];
        if (field === "data") message.data += content;
        else if (field) message.event = content;
      }
      if (message.data) yield [message.event, JSON.parse(message.data)];
    }
  }
}
