// Dead letters by reason.

import { may } from './actions.js';
import { act_on_some } from './bulk.js';
import { table } from './table.js';
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
  const link = ([reason]) => html`
    <a href=${to({ ...place, reason: reason || NO_REASON })} aria-current=${place.reason === (reason || NO_REASON) ? 'true' : nothing}>${reason || t('no_reason')}</a>`;
  const columns = [
    ['reason', link, 'reason'],
    ['messages', ([, of]) => count(of.length), 'number'],
    may(page, 'act') && ['action', ([, of]) => html`<button @click=${() => act_on_some(page, 'replay', of)}>${t('do_replay_n', { n: count(of.length) })}</button>`],
  ];
  return html`
    <h2>${t('by_reason')}</h2>
    <p class="faint">${t('by_reason_of', { n: count(messages.length) })}</p>
    ${table(t('by_reason'), columns, rows)}`;
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
