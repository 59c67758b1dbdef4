// A page of messages as a table; a card each where the screen is narrow.

import { box } from './selection.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { t, time } from './words.js';

/** The time by which messages of a state are listed. */
const WHEN = { delayed: 'due', ready: 'due', leased: 'lease_ends', dead: 'since' };

/** The rows of messages; with the topic where they are of several, and with boxes where they can be chosen. */
export function table(messages, { state, caption, with_topic, with_state, selection }) {
  const when = WHEN[state] ?? 'due';
  return html`
    <table class="cards-when-narrow">
      <caption class="hidden">${caption}</caption>
      <thead><tr>
        ${selection ? html`<th scope="col"><span class="hidden">${t('chosen_messages')}</span></th>` : nothing}
        <th scope="col">${t('id')}</th>
        ${with_topic ? html`<th scope="col">${t('topic')}</th>` : nothing}
        <th scope="col">${t('group')}</th>
        ${with_state ? html`<th scope="col">${t('state')}</th>` : nothing}
        <th scope="col">${t(`when_${when}`)}</th>
        <th scope="col">${t('attempt')}</th>
        ${state === 'dead' ? html`<th scope="col">${t('reason')}</th>` : nothing}
      </tr></thead>
      <tbody>${messages.map((message) => row(message, { state, when, with_topic, with_state, selection }))}</tbody>
    </table>`;
}

function row(message, { state, when, with_topic, with_state, selection }) {
  const { id, topic, group, attempt, max_attempts, reason, unreadable } = message;
  return html`
    <tr>
      ${selection ? html`<td class="box">${box(selection, message)}</td>` : nothing}
      <th scope="row"><a class="id" href=${to({ topic, id, group })}>${id}</a></th>
      ${with_topic ? html`<td data-label=${t('topic')}>${topic}</td>` : nothing}
      <td data-label=${t('group')}>${group ? html`<a href=${to({ view: 'find', group })}>${group}</a>` : html`<span class="faint">–</span>`}</td>
      ${with_state ? html`<td data-label=${t('state')}>${message.state ? t(`state_${message.state}`) : unreadable}</td>` : nothing}
      <td data-label=${t(`when_${when}`)}>${unreadable ? unreadable : time(message[`${when}_ms`])}</td>
      <td data-label=${t('attempt')}>${attempts(attempt, max_attempts)}</td>
      ${state === 'dead' ? html`<td data-label=${t('reason')} class="reason">${reason ?? ''}</td>` : nothing}
    </tr>`;
}

/** Attempts so far, and the maximum; 0 is no maximum. */
export function attempts(attempt, max) {
  if (attempt === undefined) return '';
  return max > 0 ? t('attempt_of', { n: attempt, max }) : String(attempt);
}
