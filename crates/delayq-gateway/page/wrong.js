// What is wrong, in sentences: the checks of the deployment that are not good, the worst first.

import { get } from './api.js';
import { unseen } from './table.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, exact, has_text, span, t } from './words.js';

const WORST_FIRST = ['bad', 'warning'];

/** How long the overview waits for an answer; a later one is shown by the next look. */
const PATIENCE_MS = 800;

/** The refusal of tenants, who do not see the deployment. */
const OF_TENANT = 'DQ-G123';

/** The latest answer of the status route, and the call under way. */
let latest = null;
let asking = null;

/** The state of the deployment: of now, or of the last look if a part does not answer soon; undefined for a tenant. */
export async function status() {
  asking ??= get('/v1/status')
    .then((answer) => (latest = answer))
    .catch((refusal) => (latest = refusal.code === OF_TENANT ? undefined : null))
    .finally(() => (asking = null));
  await Promise.race([asking, new Promise((done) => setTimeout(done, PATIENCE_MS))]);
  return latest;
}

/** The panel of the state; null before the first answer. */
export function wrong(status) {
  if (status === undefined) return nothing;
  if (status === null) return html`<p class="faint">${t('looking')}</p>`;
  const { checks, missing } = status;
  const faults = WORST_FIRST.flatMap((verdict) => checks.filter((check) => check.verdict === verdict));
  if (faults.length === 0 && missing.length === 0) return html`<p class="note good">${t('nothing_wrong', { n: checks.length })}</p>`;
  return html`
    <h2>${t('wrong')}</h2>
    <ul class="faults">${faults.map(fault)}</ul>
    ${missing.map(unseen)}`;
}

/** A value in words, by the end of its name. */
function shown([name, value]) {
  if (name.endsWith('_ms')) return [name, span(value)];
  if (name.endsWith('_at')) return [name, exact(value)];
  return [name, typeof value === 'number' ? count(value) : String(value)];
}

/** The finding and the remedy. The gateway may know causes that this page does not. */
function words({ what, cause, found, advice, values = {} }) {
  if (!has_text(`found_${cause}`)) return [`${what}: ${found}`, advice];
  const all = Object.fromEntries(Object.entries(values).map(shown));
  const also = Object.keys(all).map((name) => `also_${name}`).filter(has_text);
  return [[`found_${cause}`, ...also].map((key) => t(key, all)).join(' '), t(`advice_${cause}`, all)];
}

function fault(check) {
  const [found, advice] = words(check);
  const { verdict, runbook } = check;
  return html`
  <li class="note ${verdict}">
    <span><span class="badge ${verdict === 'bad' ? 'dead' : 'warn'}">${t(`verdict_${verdict}`)}</span> ${found}
      ${advice ? html`<br>${t('advice', { advice })}` : nothing}
      ${runbook ? html`<a href=${runbook} target="_blank" rel="noopener noreferrer">${t('runbook')}</a>` : nothing}</span>
  </li>`;
}
