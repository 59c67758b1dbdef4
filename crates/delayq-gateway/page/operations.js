// Operations: what was done to all messages that matched, by whom and why; and one with its progress and outcomes.

import { may } from './actions.js';
import { call, get, path } from './api.js';
import { ask } from './dialog.js';
import { facts, table } from './table.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, distance, exact, filter_words, outcome, so_many, t, time } from './words.js';

export const name = 'operations';
export const title = () => t('operations');

/** While one runs, the page looks more often. */
const QUICKLY_MS = 1_000;
export const every_ms = ({ one }) => (one && !one.ended_ms ? QUICKLY_MS : null);

export async function load({ operation }) {
  if (operation) return { one: await get(path`/v1/operations/${operation}`) };
  return { all: (await get('/v1/operations')).operations };
}

export function show(_place, { one, all }, page) {
  if (one) return operation(one, page);
  return html`<h1>${t('operations')}</h1><p class="faint">${t('about_operations')}</p>${all.length > 0 ? table(t('operations'), COLUMNS, all) : html`<p>${t('no_operations')}</p>`}`;
}

const COLUMNS = [
  ['operation', (one) => html`<a href=${to({ view: 'operations', operation: one.id })}>${heading(one)}</a>`],
  ['state', (one) => html`${badge(one)} ${t('done_of', { done: count(one.done), total: total(one) })}`],
  ['began', ({ began_ms }) => html`<span title=${exact(began_ms)}>${distance(began_ms)}</span>`],
  ['who', ({ by }) => who(by)],
  ['why', ({ reason }) => reason, 'reason'],
];

const heading = ({ action, filter }) => html`${t(`did_what_${action}`)}: ${filter_words(filter)}`;

const badge = ({ state }) => html`<span class="badge ${BADGES[state]}">${t(`operation_${state}`)}</span>`;
const BADGES = { running: 'leased', aborting: 'leased', done: 'ready', aborted: 'warn', failed: 'dead' };

/** Who it was; without tokens there are no names. */
export const who = (name) => name ?? html`<span class="faint">${t('anybody')}</span>`;

const total = ({ total, exact }) => so_many(total, exact);

/** Messages that the operation is done with. */
const handled = ({ outcomes }) => Object.entries(outcomes).reduce((all, [word, n]) => all + (word === 'changed' ? 0 : n), 0);

function operation(one, page) {
  const { action, state, reason, by, began_ms, ended_ms, due_ms, aborted_by, why, takeovers } = one;
  const fact = (key, value) => [t(key), value];
  return html`
    <p><a href=${to({ view: 'operations' })}>${t('all_operations')}</a></p>
    <h1>${heading(one)}</h1>
    <p class="why">${badge(one)} ${state === 'failed' ? why : t(`about_${state}`)}</p>
    ${progress(one)}
    ${may(page, 'act') && state === 'running' ? html`<p class="buttons"><button class="danger" @click=${() => abort(one, page)}>${t('abort')}</button></p>` : nothing}
    ${facts([
      fact('who', who(by)), fact('why', reason), fact('began', time(began_ms)),
      ended_ms && fact('ended', time(ended_ms)),
      action === 'reschedule' && due_ms && fact('new_due_is', time(due_ms)),
      aborted_by !== undefined && fact('aborted_by', who(aborted_by || null)),
      fact('looked_at', count(one.looked_at)),
      takeovers > 0 && fact('takeovers', count(takeovers)),
    ])}
    ${outcomes(one)} ${unchanged(one)}`;
}

/** The bar, and in words for screen readers every tenth of it. */
function progress(one) {
  const [n, of] = [handled(one), Math.max(1, one.total, handled(one))];
  const tenth = Math.floor((n / of) * 10) * 10;
  return html`
    <progress aria-label=${t('progress')} max=${of} .value=${n}></progress>
    <p>${t('done_of', { done: count(one.done), total: total(one) })}</p>
    <p class="hidden" role="status">${t('percent', { n: one.ended_ms ? 100 : tenth })}</p>`;
}

function outcomes({ outcomes }) {
  const rows = Object.entries(outcomes).sort(([, one], [, other]) => other - one);
  if (rows.length === 0) return nothing;
  return html`
    <h2>${t('outcomes')}</h2>
    ${table(t('outcomes'), [['outcome', ([word]) => outcome(word)], ['messages', ([, n]) => count(n), 'number']], rows)}`;
}

function unchanged({ unchanged }) {
  if (unchanged.length === 0) return nothing;
  return html`
    <h2>${t('unchanged')}</h2>
    <p class="faint">${t('unchanged_first', { n: count(unchanged.length) })}</p>
    ${table(t('unchanged'), UNCHANGED, unchanged)}`;
}

const UNCHANGED = [
  ['id', ({ topic, id, group }) => html`<a class="id" href=${to({ topic, id, group })}>${id}</a>`],
  ['topic', ({ topic }) => topic],
  ['outcome', ({ outcome: word, reason }) => html`${outcome(word)} ${reason ?? nothing}`],
];

function abort({ id }, page) {
  const run = async () => {
    await call('DELETE', path`/v1/operations/${id}`);
    return { kind: 'good', text: t('abort_asked') };
  };
  ask(page, { title: t('abort'), text: t('ask_abort'), button: t('abort'), danger: true, run });
}
