// Dead letters by reason.

import { may } from './actions.js';
import { act_on_some } from './bulk.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t } from './words.js';

/** Characters of a reason's heading. */
const MAX_HEADING = 200;

/** The heading of a reason: its first line, where numbers do not count. */
export function heading({ reason }) {
  const first = (reason ?? '').split('\n')[0].trim().slice(0, MAX_HEADING);
  return first.replace(/\d+/g, '#');
}

/** The reasons of these dead letters, the most frequent first; each with a button that replays all of it. */
export function reasons(place, messages, page) {
  const groups = Map.groupBy ? Map.groupBy(messages, heading) : grouped(messages);
  const rows = [...groups].sort(([, one], [, other]) => other.length - one.length);
  return html`
    <h2>${t('by_reason')}</h2>
    <p class="faint">${t('by_reason_of', { n: count(messages.length) })}</p>
    <table class="cards-when-narrow">
      <thead><tr><th scope="col">${t('reason')}</th><th scope="col" class="number">${t('messages')}</th>
        ${may(page, 'act') ? html`<th scope="col">${t('action')}</th>` : nothing}</tr></thead>
      <tbody>${rows.map(([reason, of]) => row(place, reason, of, page))}</tbody>
    </table>`;
}

function row(place, reason, messages, page) {
  const shown = reason || t('no_reason');
  const run = () => act_on_some(page, 'replay', messages);
  return html`
    <tr>
      <th scope="row" class="reason"><a href=${to({ ...place, reason: reason || NO_REASON })} aria-current=${place.reason === (reason || NO_REASON) ? 'true' : nothing}>${shown}</a></th>
      <td data-label=${t('messages')} class="number">${count(messages.length)}</td>
      ${may(page, 'act') ? html`<td data-label=${t('action')}><button @click=${run}>${t('do_replay_n', { n: count(messages.length) })}</button></td>` : nothing}
    </tr>`;
}

/** In the URL, for messages that died without a reason. */
const NO_REASON = '-';

/** What every reason of a heading contains: its longest part between numbers. Null if there is none. */
export function part_of(heading) {
  if (heading === NO_REASON) return null;
  const parts = heading.split('#').sort((one, other) => other.length - one.length);
  return parts[0].trim() || null;
}

/** The messages with the reason that the URL names. */
export const filtered = ({ reason }, messages) =>
  reason ? messages.filter((message) => (heading(message) || NO_REASON) === reason) : messages;

function grouped(messages) {
  const groups = new Map();
  for (const message of messages) groups.set(heading(message), [...(groups.get(heading(message)) ?? []), message]);
  return groups;
}
