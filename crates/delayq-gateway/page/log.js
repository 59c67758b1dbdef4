// Who did what.

import { get, query } from './api.js';
import { who } from './operations.js';
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
  ${actions.length > 0 ? table(actions) : html`<p>${t(place.after ? 'no_more_actions' : 'no_actions')}</p>`}
  <p class="pager">
    ${place.after ? html`<a href=${to({ ...place, after: null })}>${t('first_page')}</a>` : nothing}
    ${next ? html`<a href=${to({ ...place, after: next })}>${t('next_page')}</a>` : nothing}
  </p>`;

const table = (actions) => html`
  <table class="cards-when-narrow">
    <caption class="hidden">${t('actions')}</caption>
    <thead><tr><th scope="col">${t('when')}</th><th scope="col">${t('who')}</th><th scope="col">${t('what')}</th><th scope="col">${t('of_what')}</th>
      <th scope="col" class="number">${t('messages')}</th><th scope="col">${t('outcome')}</th></tr></thead>
    <tbody>${actions.map(row)}</tbody>
  </table>`;

const row = (action) => html`
  <tr>
    <td data-label=${t('when')}>${time(action.done_ms)}</td>
    <td data-label=${t('who')}>${who(action.who)} ${action.tenant ? html`<span class="faint">${t('of_tenant', { tenant: action.tenant })}</span>` : nothing}</td>
    <th scope="row">${has_text(`act_${action.action}`) ? t(`act_${action.action}`) : action.action} ${action.requests > 1 ? html`<span class="faint">${t('times', { n: count(action.requests) })}</span>` : nothing}</th>
    <td data-label=${t('of_what')} class="wraps">${of_what(action)}</td>
    <td data-label=${t('messages')} class="number">${count(action.messages)}</td>
    <td data-label=${t('outcome')}>${action.outcome === 'done' ? t('outcome_done') : refusal(action.outcome)}</td>
  </tr>`;

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
