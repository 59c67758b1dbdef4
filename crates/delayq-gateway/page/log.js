// Who did what.

import { get, query } from './api.js';
import { who } from './operations.js';
import { pager, table } from './table.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, filter_words, has_text, sentence, t, time } from './words.js';

export const name = 'actions';
export const title = () => t('actions');

const LIMIT = 50;

export const load = ({ after }) => get('/v1/actions' + query({ after, limit: LIMIT }));

export const show = (place, { actions, next }) => html`
  <h1>${t('actions')}</h1>
  <p class="faint">${t('about_actions')}</p>
  ${actions.length > 0 ? table(t('actions'), COLUMNS, actions, WHAT) : html`<p>${t(place.after ? 'no_more_actions' : 'no_actions')}</p>`}
  ${pager(place, next)}`;

const COLUMNS = [
  ['when', ({ done_ms }) => time(done_ms)],
  ['who', ({ who: name, tenant }) => html`${who(name)} ${tenant ? html`<span class="faint">${t('of_tenant', { tenant })}</span>` : nothing}`],
  ['what', ({ action, requests }) => html`${has_text(`act_${action}`) ? t(`act_${action}`) : action} ${requests > 1 ? html`<span class="faint">${t('times', { n: count(requests) })}</span>` : nothing}`],
  ['of_what', of_what, 'wraps'],
  ['messages', ({ messages }) => count(messages), 'number'],
  ['outcome', ({ outcome }) => (outcome === 'done' ? t('outcome_done') : refusal(outcome))],
];
const WHAT = 2;

function refusal(code) {
  return html`<span class="bad">${sentence(code) ?? nothing} <code>${code}</code></span>`;
}

/** The names in the path, the parameters and the details from the body: linked where a screen shows them, else by name. */
function of_what({ of, filter, with: details }) {
  const parameters = Object.fromEntries(new URLSearchParams(filter ?? ''));
  const { topic, id, group, operation, topics, action, filter: chosen, ...others } = { ...parameters, ...details, ...of };
  const rest = topic || operation || action ? others : { ...(id ? { id } : {}), ...others };
  return html`
    ${topic ? html`<a href=${to({ topic, id, group })}>${id ? `${topic} / ${id}` : topic}</a>` : nothing}
    ${(topics ?? []).map((one) => html`<a href=${to({ topic: one })}>${one}</a> `)}
    ${group ? html`<a href=${to({ view: 'find', group })}>${t('group_whole', { group })}</a>` : nothing}
    ${action || operation ? operation_link({ id: operation ?? id, action, filter: chosen }) : nothing}
    ${Object.entries(rest).map(([name, value]) => html`<span class="faint"><code>${name}</code> ${readable(value)}</span> `)}`;
}

/** A dry run has no id: it began nothing. */
function operation_link({ id, action, filter }) {
  const words = action ? `${t(`did_what_${action}`)}: ${filter_words(filter)}` : id;
  return id ? html`<a href=${to({ view: 'operations', operation: id })}>${words}</a>` : words;
}

const readable = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));
