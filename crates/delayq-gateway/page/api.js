// Calls of the gateway's API, and the clock of its answers.

/** Longest time that the page waits for an answer. */
const PATIENCE_MS = 15_000;
/** The header that tells the time has whole seconds: a smaller difference is none. */
const GRAIN_MS = 2_000;

let skew_ms = 0;

/** The time by the gateway's clock, which may differ from the reader's. */
export const now = () => Date.now() + skew_ms;

/** A refusal or a failure, with its stable code. */
export class Refusal extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.code);
    this.problem = problem;
    this.code = problem.code;
  }
}

/** Calls a route. Answers its JSON; null where there is none. */
export async function call(method, path, body) {
  const answer = await sent(method, path, body);
  const text = await answer.text().catch(() => '');
  const value = parsed(text);
  if (!answer.ok) throw new Refusal(value?.code ? value : { code: `HTTP ${answer.status}`, detail: answer.statusText });
  return value;
}

export const get = (path) => call('GET', path);
export const post = (path, body) => call('POST', path, body);

/** A path with these names as segments. */
export const path = (parts, ...names) => parts.reduce((all, part, i) => all + encodeURIComponent(names[i - 1]) + part);

/** The parameters that have a value, as the end of a path. */
export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = set.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  return text && `?${text}`;
}

async function sent(method, path, body) {
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const sending = fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store' });
  const answer = await sending.catch((error) => {
    throw new Refusal({ code: 'away', detail: String(error.message ?? error) });
  });
  const told = Date.parse(answer.headers.get('date') ?? '');
  if (!Number.isNaN(told)) skew_ms = Math.abs(told - Date.now()) > GRAIN_MS ? told - Date.now() : 0;
  return answer;
}

function parsed(text) {
  try {
    return text === '' ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
