// Finding messages by what no index has: a header, or the reason of the last failure. The gateway walks over a topic's messages,
// and says how many it looked at.

import { get, path, query } from './api.js';
import { STATES } from './overview.js';
import { list as listed } from './rows.js';
import { bar, selection } from './selection.js';
import { field } from './table.js';
import { go, to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t } from './words.js';

const LIMIT = 50;

/** True for a place that asks for a walk. */
export const is_walk = ({ topic, header, reason }) => Boolean(topic && (header || reason));

export async function load({ topic, state, header, reason, after }) {
  const [numbers, list] = await Promise.all([
    get(path`/v1/topics/${topic}`),
    get(path`/v1/topics/${topic}/messages` + query({ state, header, reason, after, limit: LIMIT })),
  ]);
  return { by: 'walk', list, total: numbers[state ?? 'delayed'] };
}

/** The form: a topic, a state, and what the messages have. */
export function form({ topic, state, header, reason }) {
  const find = (event) => {
    event.preventDefault();
    const asked = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()]));
    const is_empty = asked.header === '' && asked.reason === '';
    event.target.elements.header.setCustomValidity(is_empty ? t('header_or_reason') : '');
    if (event.target.reportValidity()) go({ view: 'find', ...asked });
  };
  return html`
    <h2>${t('by_content')}</h2>
    <form class="find" @submit=${find} @input=${(event) => event.currentTarget.elements.header.setCustomValidity('')} novalidate>
      ${field(t('topic'), 'topic', topic)}
      <label class="field">${t('state')} <select name="state">${STATES.map((one) => html`<option value=${one} ?selected=${one === (state ?? 'delayed')}>${t(`state_${one}`)}</option>`)}</select></label>
      ${field(t('header'), 'header', header, false)} ${field(t('reason_contains'), 'reason', reason, false)}
      <button>${t('walk')}</button>
    </form>
    <p class="faint">${t('walk_help')}</p>`;
}

/** What the walk found so far, and the way on. */
export function results(place, { list, total }, page) {
  const { messages, next, looked_at } = list;
  const seen = Number(place.seen ?? 0) + looked_at;
  const caption = t('results');
  const chosen = messages.length > 0 ? selection(page, filter(place)) : null;
  return html`
    <h2>${caption}</h2>
    <p role="status">${t('looked_at_of', { n: count(messages.length), seen: count(seen), total: count(Math.max(total, seen)) })}
      ${next ? html`<a href=${to({ ...place, after: next, seen })}>${t('go_on')}</a>` : t('looked_at_all')}</p>
    ${chosen ? bar(chosen, messages, !place.reason || place.state === 'dead') : nothing}
    ${messages.length > 0 ? listed(messages, { state: place.state ?? 'delayed', caption, selection: chosen }) : nothing}`;
}

/** What an operation on all that the walk would find matches; only dead letters are selected by their reason. */
function filter({ topic, state, header, reason }) {
  const colon = (header ?? '').indexOf(':');
  const headers = header ? { headers: { [header.slice(0, colon).trim()]: header.slice(colon + 1).trim() } } : {};
  return { topics: [topic], state: state ?? 'delayed', ...headers, ...(reason ? { reason } : {}) };
}
