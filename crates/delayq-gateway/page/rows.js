// A page of messages as a table; a card each where the screen is narrow.

import { box } from './selection.js';
import { table } from './table.js';
import { to } from './url.js';
import { html } from './vendor/lit-html.js';
import { t, time } from './words.js';

/** The time by which messages of a state are listed. */
const WHEN = { delayed: 'due', ready: 'due', leased: 'lease_ends', dead: 'since' };

/** The rows of messages; with the topic where they are of several, and with boxes where they can be chosen. */
export function list(messages, { state, caption, with_topic, with_state, selection }) {
  const when = WHEN[state] ?? 'due';
  const columns = [
    selection && ['chosen_messages', (message) => box(selection, message), 'box'],
    ['id', ({ id, topic, group }) => html`<a class="id" href=${to({ topic, id, group })}>${id}</a>`],
    with_topic && ['topic', ({ topic }) => topic],
    ['group', ({ group }) => (group ? html`<a href=${to({ view: 'find', group })}>${group}</a>` : html`<span class="faint">–</span>`)],
    with_state && ['state', ({ state, unreadable }) => (state ? t(`state_${state}`) : unreadable)],
    [`when_${when}`, (message) => message.unreadable ?? time(message[`${when}_ms`])],
    ['attempt', ({ attempt, max_attempts }) => attempts(attempt, max_attempts)],
    state === 'dead' && ['reason', ({ reason }) => reason ?? '', 'reason'],
  ];
  return table(caption, columns, messages, selection ? 1 : 0);
}

/** Attempts so far, and the maximum; 0 is no maximum. */
export function attempts(attempt, max) {
  if (attempt === undefined) return '';
  return max > 0 ? t('attempt_of', { n: attempt, max }) : String(attempt);
}
