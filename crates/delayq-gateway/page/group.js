// A group or a topic as a whole: changing the pending messages of a group, and pausing.

import { may } from './actions.js';
import { path, post, query } from './api.js';
import { ask } from './dialog.js';
import { field, table } from './table.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t, time } from './words.js';

/** The buttons of a group, or of its messages of one topic. */
export function group_buttons({ group, topic }, page, is_long) {
  if (!may(page, 'act')) return nothing;
  return html`<p class="buttons">
    <button @click=${() => shift(group, topic, page)}>${t('shift_group')}</button>
    <button class="danger" @click=${() => cancel(group, topic, page, is_long)}>${t('cancel_group')}</button>
  </p>`;
}

const whose = (group, topic) => (!group ? topic : topic ? t('group_in', { group, topic }) : t('group_whole', { group }));

/** Of a group whose messages are not all on the screen, the reader types the name. */
function cancel(group, topic, page, is_long) {
  const fields = is_long ? html`<div @input=${(event) => check(event.target, group)}>${field(t('type_group', { group }), 'typed')}</div>` : nothing;
  const run = async () => {
    const { outcome, cancelled, leased_or_failed: passed } = await post(path`/v1/groups/${group}/cancel` + query({ topic }));
    return { kind: 'good', text: done('did_cancel_group', outcome, cancelled, passed) };
  };
  ask(page, { title: t('cancel_group'), text: t('ask_cancel_group', { whose: whose(group, topic) }), fields, button: t('cancel_group'), danger: true, run });
}

const done = (key, outcome, n, passed) => (outcome === 'spooled' ? t('did_spooled') : t(key, { n: count(n), passed: count(passed) }));

const check = (input, name) => input.setCustomValidity(input.value === name ? '' : t('type_group', { group: name }));

/** A repeat under the same token moves no message twice. */
function shift(group, topic, page) {
  const token = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const fields = field(t('shift_help'), 'by', '1h');
  const run = async (form) => {
    const { outcome, moved, passed } = await post(path`/v1/groups/${group}/shift` + query({ topic }), { by: form.get('by').trim(), token });
    return { kind: 'good', text: done('did_shift_group', outcome, moved, passed) };
  };
  ask(page, { title: t('shift_group'), text: t('ask_shift_group', { whose: whose(group, topic) }), fields, button: t('shift_group'), run });
}

export function pause_buttons({ topic, paused }, page) {
  if (!may(page, 'manage')) return nothing;
  return html`<p class="buttons">
    <button @click=${() => change(paused > 0 ? 'resume' : 'pause', { topic }, page)}>${t(paused > 0 ? 'do_resume' : 'do_pause')}</button>
    <button @click=${() => pause_group(topic, page)}>${t('do_pause_group')}…</button>
  </p>`;
}

/** The paused groups of a topic, each with the way to resume it. */
export function paused_groups({ topic, groups_paused }, page) {
  if (groups_paused.length === 0) return nothing;
  const caption = t('groups_paused', { n: count(groups_paused.length) });
  const columns = [
    ['group', ({ group }) => html`<a href=${to({ view: 'find', group, topic })}>${group}</a>`],
    ['paused_since', ({ since_ms }) => time(since_ms)],
    may(page, 'manage') && ['do_resume', ({ group }) => html`<button @click=${() => change('resume', { topic, group }, page)} aria-label=${t('resume_group', { group })}>${t('do_resume')}</button>`, 'box'],
  ];
  return html`<details open><summary>${caption}</summary>${table(caption, columns, groups_paused)}</details>`;
}

function pause_group(topic, page) {
  const fields = field(t('group'), 'group');
  const run = (form) => changed('pause', { topic, group: form.get('group').trim() });
  ask(page, { title: t('do_pause_group'), text: t('ask_pause_group', { topic }), fields, button: t('do_pause'), run });
}

function change(verb, of, page) {
  ask(page, { title: t(`do_${verb}`), text: t(`ask_${verb}`, { whose: whose(of.group, of.topic) }), button: t(`do_${verb}`), run: () => changed(verb, of) });
}

async function changed(verb, of) {
  await post(path`/v1/topics/${of.topic}/` + verb + query({ group: of.group }));
  return { kind: 'good', text: t(`did_${verb}`, { whose: whose(of.group, of.topic) }) };
}
