// Operations: what was done to all messages that matched, by whom and why; and one with its progress and outcomes.

import { may } from './actions.js';
import { call, get, path } from './api.js';
import { ask } from './dialog.js';
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
  return html`<h1>${t('operations')}</h1><p class="faint">${t('about_operations')}</p>${all.length > 0 ? table(all) : html`<p>${t('no_operations')}</p>`}`;
}

const table = (all) => html`
  <table class="cards-when-narrow">
    <caption class="hidden">${t('operations')}</caption>
    <thead><tr><th scope="col">${t('operation')}</th><th scope="col">${t('state')}</th><th scope="col">${t('began')}</th>
      <th scope="col">${t('who')}</th><th scope="col">${t('why')}</th></tr></thead>
    <tbody>${all.map(row)}</tbody>
  </table>`;

const row = (one) => html`
  <tr>
    <th scope="row"><a href=${to({ view: 'operations', operation: one.id })}>${heading(one)}</a></th>
    <td data-label=${t('state')}>${badge(one)} ${t('done_of', { done: count(one.done), total: total(one) })}</td>
    <td data-label=${t('began')}><span title=${exact(one.began_ms)}>${distance(one.began_ms)}</span></td>
    <td data-label=${t('who')}>${who(one.by)}</td>
    <td data-label=${t('why')} class="reason">${one.reason}</td>
  </tr>`;

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
  const fact = (key, value) => html`<dt>${t(key)}</dt><dd>${value}</dd>`;
  return html`
    <p><a href=${to({ view: 'operations' })}>${t('all_operations')}</a></p>
    <h1>${heading(one)}</h1>
    <p class="why">${badge(one)} ${state === 'failed' ? why : t(`about_${state}`)}</p>
    ${progress(one)}
    ${may(page, 'act') && state === 'running' ? html`<p class="buttons"><button class="danger" @click=${() => abort(one, page)}>${t('abort')}</button></p>` : nothing}
    <dl class="facts">
      ${fact('who', who(by))} ${fact('why', reason)} ${fact('began', time(began_ms))}
      ${ended_ms ? fact('ended', time(ended_ms)) : nothing}
      ${action === 'reschedule' && due_ms ? fact('new_due_is', time(due_ms)) : nothing}
      ${aborted_by === undefined ? nothing : fact('aborted_by', who(aborted_by || null))}
      ${fact('looked_at', count(one.looked_at))}
      ${takeovers > 0 ? fact('takeovers', count(takeovers)) : nothing}
    </dl>
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
    <table><thead><tr><th scope="col">${t('outcome')}</th><th scope="col" class="number">${t('messages')}</th></tr></thead>
      <tbody>${rows.map(([word, n]) => html`<tr><th scope="row">${outcome(word)}</th><td class="number">${count(n)}</td></tr>`)}</tbody></table>`;
}

function unchanged({ unchanged }) {
  if (unchanged.length === 0) return nothing;
  return html`
    <h2>${t('unchanged')}</h2>
    <p class="faint">${t('unchanged_first', { n: count(unchanged.length) })}</p>
    <table class="cards-when-narrow">
      <thead><tr><th scope="col">${t('id')}</th><th scope="col">${t('topic')}</th><th scope="col">${t('outcome')}</th></tr></thead>
      <tbody>${unchanged.map(({ topic, id, group, outcome: word, reason }) => html`
        <tr><th scope="row"><a class="id" href=${to({ topic, id, group })}>${id}</a></th><td data-label=${t('topic')}>${topic}</td>
          <td data-label=${t('outcome')}>${outcome(word)} ${reason ?? nothing}</td></tr>`)}</tbody>
    </table>`;
}

function abort({ id }, page) {
  const run = async () => {
    await call('DELETE', path`/v1/operations/${id}`);
    return { kind: 'good', text: t('abort_asked') };
  };
  ask(page, { title: t('abort'), text: t('ask_abort'), button: t('abort'), danger: true, run });
}
