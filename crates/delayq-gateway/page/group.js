// Changing all pending messages of a group.

import { may } from './actions.js';
import { path, post, query } from './api.js';
import { ask } from './dialog.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t } from './words.js';

/** The buttons of a group, or of its messages of one topic. */
export function group_buttons({ group, topic }, page, is_long) {
  if (!may(page, 'act')) return nothing;
  return html`<p class="buttons">
    <button @click=${() => shift(group, topic, page)}>${t('shift_group')}</button>
    <button class="danger" @click=${() => cancel(group, topic, page, is_long)}>${t('cancel_group')}</button>
  </p>`;
}

const whose = (group, topic) => (topic ? t('group_in', { group, topic }) : t('group_whole', { group }));

/** Of a group whose messages are not all on the screen, the reader types the name. */
function cancel(group, topic, page, is_long) {
  const fields = is_long ? html`<label class="field">${t('type_group', { group })} <input name="typed" required autocomplete="off" @input=${(event) => check(event.target, group)}></label>` : nothing;
  const run = async () => {
    const { outcome, cancelled, leased_or_failed: passed } = await post(path`/v1/groups/${group}/cancel` + query({ topic }));
    return { kind: 'good', text: done('did_cancel_group', outcome, cancelled, passed) };
  };
  ask(page, { title: t('cancel_group'), text: t('ask_cancel_group', { whose: whose(group, topic) }), fields, button: t('cancel_group'), danger: true, run });
}

const done = (key, outcome, n, passed) => (outcome === 'spooled' ? t('did_group_spooled') : t(key, { n: count(n), passed: count(passed) }));

const check = (input, name) => input.setCustomValidity(input.value === name ? '' : t('type_group', { group: name }));

/** A repeat under the same token moves no message twice. */
function shift(group, topic, page) {
  const token = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const fields = html`<label class="field">${t('shift_help')} <input name="by" required value="1h" autocomplete="off" spellcheck="false"></label>`;
  const run = async (form) => {
    const { outcome, moved, passed } = await post(path`/v1/groups/${group}/shift` + query({ topic }), { by: form.get('by').trim(), token });
    return { kind: 'good', text: done('did_shift_group', outcome, moved, passed) };
  };
  ask(page, { title: t('shift_group'), text: t('ask_shift_group', { whose: whose(group, topic) }), fields, button: t('shift_group'), run });
}
