// Changing messages: a dialog that says what will happen, the call, and its answer in words.

import { Refusal, now, post } from './api.js';
import { html, nothing, render } from './vendor/lit-html.js';
import { count, exact, refused, t } from './words.js';

/** Most messages of one call. */
const MAX_ITEMS = 500;

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
    ${state === 'dead' ? html`<button @click=${() => replay([target], page, t('ask_replay', { id: target.id }))}>${t('do_replay')}</button>` : nothing}
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
  const run = (form) => one('reschedule', { ...target, due: new Date(form.get('due')).getTime(), expected_due: due_ms });
  const put = (ms) => (event) => (event.target.form.elements.due.value = local(now() + ms));
  const fields = html`
    <label class="field">${t('new_due')} <input type="datetime-local" name="due" step="1" required value=${local(due_ms)}></label>
    <p class="buttons">${LATER.map(([key, ms]) => html`<button type="button" @click=${put(ms)}>${t(key)}</button>`)}</p>`;
  ask(page, { title: t('do_reschedule'), text: t('ask_reschedule', { id: target.id, at: exact(due_ms) }), fields, button: t('do_reschedule'), run });
}

/** Replays dead letters, all in one call. */
export function replay(targets, page, text) {
  const some = targets.slice(0, MAX_ITEMS);
  const button = some.length === 1 ? t('do_replay') : t('do_replay_n', { n: count(some.length) });
  const run = async () => (some.length === 1 ? one('replay', some[0]) : tally(await post('/v1/replay', some)));
  ask(page, { title: t('do_replay'), text, button, run });
}

/** The time of an input by the reader's clock. */
const local = (ms) => exact(ms).replace(' ', 'T');

async function one(verb, item) {
  const [answer] = await post(`/v1/${verb}`, [item]);
  const { outcome, state, code } = answer;
  const key = `did_${verb}_${(outcome ?? '').replace(' ', '_')}`;
  const at = exact(answer.due_ms ?? now());
  const shown = state ? t(`state_${state}`) : '';
  return { kind: code ? 'bad' : 'good', text: t(key) === key ? refused({ problem: answer }) : t(key, { at, state: shown, reason: answer.reason ?? '' }) };
}

function tally(answers) {
  const failed = answers.filter(({ code }) => code !== undefined);
  const done = answers.length - failed.length;
  const first = failed[0] ? t('did_replay_first', { reason: failed[0].detail }) : '';
  return { kind: failed.length > 0 ? 'bad' : 'good', text: `${t('did_replay_many', { done: count(done), failed: count(failed.length) })} ${first}` };
}

/** Asks before it runs; what became of it is said on the page, which is read again. */
function ask(page, { title, text, fields, button, danger, run }) {
  const dialog = document.createElement('dialog');
  const close = () => dialog.close();
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    draw(true);
    try {
      const { kind, text } = await run(form);
      page.say(text, kind);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      page.say(error.problem.fate === 'unknown' || error.code === 'away' ? html`${refused(error)} ${t('fate_unknown')}` : refused(error), 'bad');
    }
    close();
    page.look();
  };
  const draw = (busy) => render(html`
    <form @submit=${submit}>
      <h2 id="asked">${title}</h2>
      <p>${text}</p>
      ${fields ?? nothing}
      <p class="buttons">
        <button class=${danger ? 'danger' : 'main'} ?disabled=${busy}>${button}</button>
        <button type="button" @click=${close}>${t('leave')}</button>
      </p>
    </form>`, dialog);
  dialog.setAttribute('aria-labelledby', 'asked');
  dialog.addEventListener('close', () => dialog.remove());
  draw(false);
  document.body.append(dialog);
  dialog.showModal();
}
