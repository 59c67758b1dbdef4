// One message: its state and why, its history, headers and payload.

import { buttons, may } from './actions.js';
import { get, path, post, query } from './api.js';
import { attempts } from './rows.js';
import { facts } from './table.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { exact, size, t, time } from './words.js';
import { why } from './why.js';

export const name = 'message';
export const title = ({ id }) => id;

/** The payload that the reader asked for, and of which message. */
let opened = null;

export async function load(place) {
  const { topic, id, group } = place;
  const target = { topic, id, group: group ?? null };
  const asked = { ...target, payload: 'shown' };
  const [[message], numbers, history] = await Promise.all([
    post('/v1/get', [asked]),
    get(path`/v1/topics/${topic}`),
    get(path`/v1/topics/${topic}/messages/${id}/history` + query({ group })).catch(() => null),
  ]);
  return { message, numbers, history, target };
}

export function show(place, { message, numbers, history, target }, page) {
  const heading = html`<p><a href=${to({ topic: place.topic })}>${t('topic_is', { topic: place.topic })}</a></p><h1 class="id">${place.id}</h1>`;
  if (!message.state) return html`${heading}<p>${message.unreadable ?? t('no_message')}</p>${events(history)}`;
  const { state } = message;
  return html`
    ${heading}
    <p class="why"><span class="badge ${state}">${t(`state_${state}`)}</span> ${why(message, numbers).map((text) => html`<span>${text} </span>`)}</p>
    ${buttons(message, target, page)}
    ${facts(known(message))}
    ${message.headers?.length > 0 ? headers(message.headers) : nothing}
    ${message.payload_bytes === undefined ? nothing : payload(message, target, page)}
    ${events(history)}`;
}

function known(message) {
  const { group, due_ms, since_ms, lease_ends_ms, attempt, delivery, max_attempts, expires_ms, shard } = message;
  const fact = (key, value) => [t(key), value];
  return [
    group && fact('group', html`<a href=${to({ view: 'find', group })}>${group}</a>`),
    fact('when_due', time(due_ms)),
    since_ms && fact('since', time(since_ms)),
    lease_ends_ms && fact('when_lease_ends', time(lease_ends_ms)),
    expires_ms && fact('expires', time(expires_ms)),
    fact('attempt', attempts(attempt, max_attempts)),
    fact('delivery', delivery),
    fact('shard', shard),
  ];
}

const headers = (headers) => html`
  <h2>${t('headers')}</h2>
  ${facts(headers.map(([name, value]) => [html`<code>${name}</code>`, value]))}`;

function payload(message, target, page) {
  const key = JSON.stringify(target);
  const open = async () => {
    const [full] = await post('/v1/get', [{ ...target, payload: 'text' }]);
    opened = { key, full };
    page.show();
  };
  const is_open = opened?.key === key;
  return html`
    <h2>${t('payload')} <span class="faint">${size(message.payload_bytes)}${t('comma')}${t(`payload_${message.payload_shown.type}`)}</span></h2>
    ${values(message.payload_shown)}
    ${!may(page, 'payload') ? html`<p class="faint">${t('no_payload_right')}</p>` : is_open ? html`<pre tabindex="0" role="region" aria-label=${t('payload')}>${readable(opened.full)}</pre>` : html`<button @click=${open}>${t('show_payload')}</button>`}`;
}

/** The values that the operators let every reader see; of an object or an array, the type alone. */
function values({ values }) {
  const all = Object.entries(values);
  if (all.length === 0) return nothing;
  const shown = (value) => (typeof value === 'object' && value !== null ? html`<span class="faint">${t(`payload_${value.type}`)}</span>` : String(value));
  return facts(all.map(([pointer, value]) => [html`<code>${pointer}</code>`, shown(value)]));
}

/** The payload as text; JSON with line breaks. */
function readable({ payload, payload_base64, payload_is_zstd }) {
  if (payload === undefined) return `${t(payload_is_zstd ? 'payload_zstd' : 'payload_binary')}\n${payload_base64 ?? ''}`;
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}

function events(history) {
  if (!history) return nothing;
  const { events, history_kept, history_cut } = history;
  if (events.length === 0) return html`<h2>${t('history')}</h2><p class="faint">${t(history_kept > 0 ? 'history_empty' : 'history_off')}</p>`;
  return html`
    <h2>${t('history')}</h2>
    ${history_cut ? html`<p class="faint">${t('history_cut')}</p>` : nothing}
    <ol class="events">${events.map(event)}</ol>`;
}

const event = ({ event, event_ms, by, reason, due_ms, attempt }) => html`
  <li>
    ${time(event_ms)} <b>${t(`event_${event}`)}</b>
    ${attempt === undefined ? nothing : t('event_attempt', { n: attempt })}
    ${by ? t('event_by', { who: by }) : nothing}
    ${due_ms ? t('event_due', { at: exact(due_ms) }) : nothing}
    ${reason ? html`<span class="reason">${reason}</span>` : nothing}
  </li>`;
