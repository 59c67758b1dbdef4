// A topic: its numbers, and its messages in one state by page.

import { get, path, query } from './api.js';
import { filtered, reasons } from './dead.js';
import * as horizon from './horizon.js';
import { STATES, paused } from './overview.js';
import { table } from './rows.js';
import { go, to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, rate, t } from './words.js';

export const name = 'topic';
export const title = ({ topic }) => topic;

/** Messages of a page; dead letters are grouped by reason, and so come in larger ones. */
const LIMIT = 50;
const LIMIT_DEAD = 500;

/** The state whose list is shown. */
const shown = ({ state }) => (STATES.includes(state) ? state : 'delayed');

export async function load(place, before) {
  const { topic, from, to: until, after } = place;
  const state = shown(place);
  const order = state === 'dead' ? 'desc' : undefined;
  // The end of a horizon's interval belongs to the next one.
  const range = state === 'delayed' ? { from, to: until && Number(until) - 1 } : {};
  const asked = query({ state, order, ...range, after, limit: state === 'dead' ? LIMIT_DEAD : LIMIT });
  const [numbers, list, ahead] = await Promise.all([
    get(path`/v1/topics/${topic}`),
    get(path`/v1/topics/${topic}/messages` + asked),
    state === 'delayed' ? horizon.counted(place, before?.ahead) : null,
  ]);
  return { state, numbers, list, ahead };
}

export function show(place, { state, numbers, list, ahead }, page) {
  const narrow = (range) => go({ ...place, ...range, after: null });
  return html`
    <h1>${place.topic}</h1>
    <p>${paused(numbers)} ${numbers.paused > 0 ? t('paused_long') : nothing}
      ${numbers.rate === null ? nothing : html`<span class="badge">${t('limited_to', { rate: rate(numbers.rate) })}</span>`}</p>
    <nav class="tabs" aria-label=${t('states')}>
      ${STATES.map((one) => html`
        <a href=${to({ topic: place.topic, state: one })} aria-current=${one === state ? 'page' : nothing}>
          ${t(`state_${one}`)} <b>${count(numbers[one])}</b>
        </a>`)}
    </nav>
    ${ahead && numbers.delayed > 0 ? horizon.panel(place, ahead, narrow) : nothing}
    ${state === 'dead' && list.messages.length > 0 ? reasons(place, list.messages, page) : nothing}
    ${messages(place, state, list)}
    <details><summary>${t('settings')}</summary>
      <dl class="facts">${Object.entries(numbers.policy).map(([key, value]) => html`<dt><code>${key}</code></dt><dd>${value}</dd>`)}</dl>
    </details>`;
}

function messages(place, state, list) {
  const some = state === 'dead' ? filtered(place, list.messages) : list.messages;
  const caption = t('list_of', { state: t(`state_${state}`), topic: place.topic });
  return html`
    <h2>${caption}</h2>
    ${state === 'dead' && place.reason ? html`<p>${t('only_reason', { reason: place.reason })} <a href=${to({ ...place, reason: null })}>${t('all_reasons')}</a></p>` : nothing}
    ${some.length === 0 ? html`<p>${t(place.after ? 'no_more' : `none_${state}`)}</p>` : table(some, { state, caption })}
    <p class="pager">
      ${place.after ? html`<a href=${to({ ...place, after: null })}>${t('first_page')}</a>` : nothing}
      ${list.next ? html`<a href=${to({ ...place, after: list.next })}>${t('next_page')}</a>` : nothing}
    </p>`;
}
