// Acting on many messages: on some by their ids, and on all that match by an operation, which is counted first.

import { due_field, is_dangerous, item, moved, why_field } from './actions.js';
import { now, post } from './api.js';
import { answered, ask, typed } from './dialog.js';
import { field } from './table.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, filter_words, outcome, so_many, t } from './words.js';

/** Most messages of one call. */
const MAX_ITEMS = 500;
const MINUTE_MS = 60_000;

/** Asks, and acts on these messages; `done` is called after the answer. */
export function act_on_some(page, deed, messages, done) {
  const n = count(messages.length);
  const fields = html`${deed === 'reschedule' ? new_due() : nothing} ${deed === 'bury' ? why_field() : nothing} ${typed(messages.length)}`;
  const run = async (form) => {
    const answers = await called(deed, messages, form);
    done?.();
    return tally(answers);
  };
  ask(page, { title: t(`do_${deed}_n`, { n }), text: t(`ask_${deed}_n`, { n }), fields, button: t(`do_${deed}_n`, { n }), danger: is_dangerous(deed), run });
}

async function called(deed, messages, form) {
  const answers = [];
  for (let at = 0; at < messages.length; at += MAX_ITEMS) {
    const calls = messages.slice(at, at + MAX_ITEMS).map((message) => item(deed, message, form));
    answers.push(...(await post(`/v1/${calls[0][0]}`, calls.map(([, message]) => message))));
  }
  return answers;
}

const DONE = ['cancelled', 'moved', 'ready', 'delayed', 'buried'];

function tally(answers) {
  const outcomes = {};
  for (const { outcome, code } of answers) outcomes[outcome ?? code] = (outcomes[outcome ?? code] ?? 0) + 1;
  const done = Object.entries(outcomes).reduce((all, [word, n]) => all + (DONE.includes(word) ? n : 0), 0);
  const failed = answers.length - done;
  const others = Object.entries(outcomes).filter(([word]) => !DONE.includes(word));
  const words = others.map(([word, n]) => t('outcome_n', { outcome: outcome(word), n: count(n) })).join(t('comma'));
  return { kind: failed > 0 ? 'bad' : 'good', text: `${t('did_many', { done: count(done), failed: count(failed) })} ${words}` };
}

/** A new due time, or a shift. */
const new_due = () => html`
  <fieldset>
    <legend>${t('how_to_move')}</legend>
    <label><input type="radio" name="how" value="due" checked> ${t('move_to')}</label>
    ${due_field(now() + 10 * MINUTE_MS)}
    <label><input type="radio" name="how" value="by"> ${t('move_by')}</label>
    ${field(t('shift_help'), 'by', '1h', false)}
  </fieldset>`;

/** Counts what matches, asks, and begins an operation. */
export function act_on_all(page, deed, filter) {
  let counted = null;
  const draw = ask(page, () => parts(deed, filter, counted));
  const dry = { action: deed, filter, dry_run: true, ...(deed === 'reschedule' ? { due: 'now' } : {}) };
  answered(() => post('/v1/operations', dry)).then((answer) => {
    counted = answer;
    draw();
  });
}

/** The dialog: `counted` is null before the count, and has a text if it was refused. */
function parts(deed, filter, counted) {
  const is_counted = counted?.count > 0;
  const n = is_counted ? so_many(counted.count, counted.exact) : '';
  const run = (form) => begin(deed, filter, form);
  return {
    title: t(`do_${deed}_all`),
    text: is_counted ? t(`ask_${deed}_n`, { n }) : (counted?.text ?? t(counted ? 'none_match' : 'counting')),
    fields: is_counted ? fields(deed, counted) : nothing,
    button: is_counted ? t(`do_${deed}_n`, { n }) : t(`do_${deed}_all`),
    danger: is_dangerous(deed),
    waits: !is_counted,
    run,
  };
}

const fields = (deed, { filter, sample, count: n, exact }) => html`
  <p>${filter_words(filter)}</p>
  <p class="faint">${t('frozen')}</p>
  <details><summary>${t('sample', { n: count(sample.length) })}</summary><ul>${sample.map(({ id }) => html`<li class="id">${id}</li>`)}</ul></details>
  ${deed === 'reschedule' ? new_due() : nothing}
  ${why_field()}
  ${typed(n, exact)}`;

async function begin(deed, filter, form) {
  const { id } = await post('/v1/operations', { action: deed, filter, reason: form.get('reason'), ...(deed === 'reschedule' ? moved(form) : {}) });
  return { kind: 'good', text: t('begun'), place: { view: 'operations', operation: id } };
}
