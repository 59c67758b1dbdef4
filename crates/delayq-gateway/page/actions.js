// Changing one message.

import { now, post } from './api.js';
import { ask } from './dialog.js';
import { html, nothing } from './vendor/lit-html.js';
import { exact, refused, t } from './words.js';

const MINUTE_MS = 60_000;
/** What the buttons of the dialog add to now. */
const LATER = [['plus_10m', 10 * MINUTE_MS], ['plus_1h', 60 * MINUTE_MS], ['plus_1d', 1440 * MINUTE_MS]];

/** True if the reader's token has this right. */
export const may = (page, right) => page.me?.rights.includes(right) ?? false;

/** The buttons of a message. */
export function buttons(message, target, page) {
  if (!may(page, 'act')) return nothing;
  const { state } = message;
  const is_pending = state === 'delayed' || state === 'ready';
  return html`<p class="buttons">
    ${state === 'delayed' ? html`<button @click=${() => promote(message, target, page)}>${t('do_promote')}</button>` : nothing}
    ${is_pending ? html`<button @click=${() => reschedule(message, target, page)}>${t('do_reschedule')}</button>` : nothing}
    ${state === 'dead' ? html`<button @click=${() => replay(target, page)}>${t('do_replay')}</button>` : nothing}
    ${is_pending || state === 'leased' ? html`<button class="danger" @click=${() => cancel(message, target, page)}>${t('do_cancel')}</button>` : nothing}
  </p>`;
}

function cancel({ state }, target, page) {
  const text = t(state === 'leased' ? 'ask_cancel_leased' : 'ask_cancel', { id: target.id });
  ask(page, { title: t('do_cancel'), text, button: t('do_cancel'), danger: true, run: () => one('cancel', target) });
}

function promote({ due_ms }, target, page) {
  const run = () => one('reschedule', { ...target, due: 'now', expected_due: due_ms });
  ask(page, { title: t('do_promote'), text: t('ask_promote', { id: target.id, at: exact(due_ms) }), button: t('do_promote'), run });
}

function reschedule({ due_ms }, target, page) {
  const run = (form) => one('reschedule', { ...target, due: due_of(form), expected_due: due_ms });
  const fields = due_field(due_ms);
  ask(page, { title: t('do_reschedule'), text: t('ask_reschedule', { id: target.id, at: exact(due_ms) }), fields, button: t('do_reschedule'), run });
}

/** The field of a new due time. */
export function due_field(due_ms) {
  const put = (ms) => (event) => (event.target.form.elements.due.value = local(now() + ms));
  return html`
    <label class="field">${t('new_due')} <input type="datetime-local" name="due" step="1" required value=${local(due_ms)}></label>
    <p class="buttons">${LATER.map(([key, ms]) => html`<button type="button" @click=${put(ms)}>${t(key)}</button>`)}</p>`;
}

export const due_of = (form) => new Date(form.get('due')).getTime();

function replay(target, page) {
  ask(page, { title: t('do_replay'), text: t('ask_replay', { id: target.id }), button: t('do_replay'), run: () => one('replay', target) });
}

/** The time of an input by the reader's clock. */
const local = (ms) => exact(ms).replace(' ', 'T');

async function one(verb, item) {
  const [answer] = await post(`/v1/${verb}`, [item]);
  const { outcome, state, code } = answer;
  const key = outcome === 'spooled' ? 'did_spooled' : `did_${verb}_${(outcome ?? '').replace(' ', '_')}`;
  const at = exact(answer.due_ms ?? now());
  const shown = state ? t(`state_${state}`) : '';
  return { kind: code ? 'bad' : 'good', text: t(key) === key ? refused({ problem: answer }) : t(key, { at, state: shown, reason: answer.reason ?? '' }) };
}
