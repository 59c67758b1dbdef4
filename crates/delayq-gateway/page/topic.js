// A topic: its numbers, and its messages in one state by page.

import { get, path, query } from './api.js';
import { filtered, part_of, reasons } from './dead.js';
import { pause_buttons, paused_groups } from './group.js';
import * as horizon from './horizon.js';
import { STATES, paused } from './overview.js';
import { list as listed } from './rows.js';
import { bar, selection } from './selection.js';
import { facts, field, pager } from './table.js';
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
  const { topic, group, from, to: until, after } = place;
  const state = shown(place);
  const order = state === 'dead' ? 'desc' : undefined;
  // The end of a horizon's interval belongs to the next one.
  const range = state === 'delayed' ? { from, to: until && Number(until) - 1 } : {};
  const asked = query({ state, group, order, ...range, after, limit: state === 'dead' ? LIMIT_DEAD : LIMIT });
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
    <p><a href=${to({})}>${t('topics')}</a></p>
    <h1>${place.topic}</h1>
    <p>${paused(numbers)} ${numbers.paused > 0 ? t('paused_long') : nothing}
      ${numbers.rate === null ? nothing : html`<span class="badge">${t('limited_to', { rate: rate(numbers.rate) })}</span>`}</p>
    ${pause_buttons(numbers, page)}
    ${paused_groups(numbers, page)}
    <nav class="tabs" aria-label=${t('states')}>
      ${STATES.map((one) => html`
        <a href=${to({ topic: place.topic, group: place.group, state: one })} aria-current=${one === state ? 'page' : nothing}>
          ${t(`state_${one}`)} <b>${count(numbers[one])}</b>
        </a>`)}
    </nav>
    ${by_group(place)}
    ${ahead && numbers.delayed > 0 ? horizon.panel(place, ahead, narrow) : nothing}
    ${state === 'dead' && list.messages.length > 0 ? reasons(place, list.messages, page) : nothing}
    ${messages(place, { state, numbers, list }, page)}
    <details><summary>${t('settings')}</summary>
      ${facts(Object.entries(numbers.policy).map(([key, value]) => [html`<code>${key}</code>`, value]))}
    </details>`;
}

/** Horizon and list of one group alone. */
function by_group(place) {
  const show = (event) => {
    event.preventDefault();
    go({ ...place, group: new FormData(event.target).get('group').trim(), after: null, reason: null });
  };
  return html`
    <form class="find" @submit=${show}>
      ${field(t('only_of_group'), 'group', place.group, false)} <button>${t('filter')}</button>
      ${place.group ? html`<a href=${to({ ...place, group: null, after: null })}>${t('all_groups')}</a>` : nothing}
    </form>`;
}

/** True if the list is about a part of the state's messages. */
const is_part = ({ group, from, to: until, reason }) => Boolean(group || from || until || reason);

/** What an operation on all that the list shows would match; a null reason is one that no filter can name. */
function filter({ topic, group, from, to: until, reason }, state) {
  const range = state === 'delayed' ? { ...(from ? { from: Number(from) } : {}), ...(until ? { to: Number(until) - 1 } : {}) } : {};
  const part = state === 'dead' && reason ? { reason: part_of(reason) } : {};
  return { topics: [topic], ...(group ? { group } : {}), state, ...range, ...part };
}

function messages(place, { state, numbers, list }, page) {
  const some = state === 'dead' ? filtered(place, list.messages) : list.messages;
  const all = filter(place, state);
  const chosen = some.length > 0 ? selection(page, all, is_part(place) ? null : numbers[state]) : null;
  const has_all = all.reason !== null && (Boolean(place.reason) || list.next !== null || Boolean(place.after));
  const caption = t('list_of', { state: t(`state_${state}`), topic: place.topic });
  return html`
    <h2>${caption}</h2>
    ${state === 'dead' && place.reason ? html`<p>${t('only_reason', { reason: place.reason })} <a href=${to({ ...place, reason: null })}>${t('all_reasons')}</a></p>` : nothing}
    ${chosen ? bar(chosen, some, has_all) : nothing}
    ${some.length === 0 ? html`<p>${t(place.after ? 'no_more' : `none_${state}`)}</p>` : listed(some, { state, caption, selection: chosen })}
    ${pager(place, list.next)}`;
}
