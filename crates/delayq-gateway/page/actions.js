// Changing one message, and what this has in common with changing many.

import { now, post } from './api.js';
import { ask } from './dialog.js';
import { html, nothing } from './vendor/lit-html.js';
import { exact, has_text, refused, t } from './words.js';

const MINUTE_MS = 60_000;
/** What the buttons of the dialog add to now. */
const LATER = [['plus_10m', 10 * MINUTE_MS], ['plus_1h', 60 * MINUTE_MS], ['plus_1d', 1440 * MINUTE_MS]];

/** True if the reader's token has this right. */
export const may = (page, right) => page.me?.rights.includes(right) ?? false;

/** What can be done with messages of a state. */
const PENDING = ['reschedule', 'bury', 'cancel'];
export const DEEDS = { delayed: ['promote', ...PENDING], ready: PENDING, pending: PENDING, leased: ['cancel'], dead: ['replay'] };

export const is_dangerous = (deed) => deed === 'cancel' || deed === 'bury';

/** The buttons of a message. */
export function buttons(message, target, page) {
  if (!may(page, 'act')) return nothing;
  const button = (deed) => html`<button class=${is_dangerous(deed) ? 'danger' : ''} @click=${() => act(deed, message, target, page)}>${t(`do_${deed}`)}</button>`;
  return html`<p class="buttons">${(DEEDS[message.state] ?? []).map(button)}</p>`;
}

/** Asks, and acts on the message if nobody moved it since the page read it. */
function act(deed, { state, due_ms, tag }, target, page) {
  const text = t(deed === 'cancel' && state === 'leased' ? 'ask_cancel_leased' : `ask_${deed}`, { id: target.id, at: exact(due_ms) });
  const run = (form) => one(item(deed, { ...target, due_ms, tag }, form));
  ask(page, { title: t(`do_${deed}`), text, fields: FIELDS[deed]?.(due_ms), button: t(`do_${deed}`), danger: is_dangerous(deed), run });
}

const FIELDS = { reschedule: due_field, bury: why_field };

/** A message as a call names it, with the action's details; it is changed only as it was seen. */
export function item(deed, { topic, id, group, due_ms, tag }, form) {
  const target = { topic, id, group: group ?? null };
  if (deed === 'promote') return ['reschedule', { ...target, due: 'now', expected_due: due_ms }];
  if (deed === 'reschedule') return [deed, { ...target, ...moved(form), expected_due: due_ms }];
  return [deed, { ...target, tag, ...(deed === 'bury' ? { reason: form.get('reason') } : {}) }];
}

export const moved = (form) => (form.get('how') === 'by' ? { by: form.get('by').trim() } : { due: due_of(form) });

/** The field of a new due time. */
export function due_field(due_ms) {
  const put = (ms) => (event) => (event.target.form.elements.due.value = local(now() + ms));
  return html`
    <label class="field">${t('new_due')} <input type="datetime-local" name="due" step="1" required value=${local(due_ms)}></label>
    <p class="buttons">${LATER.map(([key, ms]) => html`<button type="button" @click=${put(ms)}>${t(key)}</button>`)}</p>`;
}

const due_of = (form) => new Date(form.get('due')).getTime();

/** So many characters always fit into the 500 bytes that the gateway keeps. */
const MAX_REASON = 160;

export function why_field() {
  return html`<label class="field">${t('why_you')} <input name="reason" required maxlength=${MAX_REASON} autocomplete="off"></label>`;
}

/** The time of an input by the reader's clock. */
const local = (ms) => exact(ms).replace(' ', 'T');

async function one([verb, item]) {
  const [answer] = await post(`/v1/${verb}`, [item]);
  return { kind: answer.code ? 'bad' : 'good', text: said(verb, answer) };
}

function said(verb, answer) {
  const { outcome, state = outcome, code, reason, due_ms } = answer;
  if (outcome === 'spooled') return t('did_spooled');
  if (!code) return t(`did_${verb}_${outcome}`, { at: exact(due_ms ?? now()) });
  if (reason) return t('did_not', { reason });
  if (outcome === 'changed' || !has_text(`state_${state}`)) return refused({ problem: answer });
  return t('did_nothing', { state: t(`state_${state}`) });
}
