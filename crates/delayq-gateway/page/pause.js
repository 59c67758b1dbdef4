// Pausing a topic, or a group of it.

import { may } from './actions.js';
import { path, post, query } from './api.js';
import { ask } from './dialog.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t, time } from './words.js';

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
  const row = ({ group, since_ms }) => html`
    <tr>
      <th scope="row"><a href=${to({ view: 'find', group, topic })}>${group}</a></th>
      <td data-label=${t('paused_since')}>${time(since_ms)}</td>
      <td>${may(page, 'manage') ? html`<button @click=${() => change('resume', { topic, group }, page)} aria-label=${t('resume_group', { group })}>${t('do_resume')}</button>` : nothing}</td>
    </tr>`;
  return html`
    <details open>
      <summary>${t('groups_paused', { n: count(groups_paused.length) })}</summary>
      <table class="cards-when-narrow">
        <caption class="hidden">${t('groups_paused', { n: count(groups_paused.length) })}</caption>
        <thead><tr><th scope="col">${t('group')}</th><th scope="col">${t('paused_since')}</th><th scope="col"><span class="hidden">${t('do_resume')}</span></th></tr></thead>
        <tbody>${groups_paused.map(row)}</tbody>
      </table>
    </details>`;
}

function pause_group(topic, page) {
  const fields = html`<label class="field">${t('group')} <input name="group" required autocomplete="off" spellcheck="false"></label>`;
  const run = (form) => changed('pause', { topic, group: form.get('group').trim() });
  ask(page, { title: t('do_pause_group'), text: t('ask_pause_group', { topic }), fields, button: t('do_pause'), run });
}

function change(verb, of, page) {
  const text = of.group === undefined ? t(`ask_${verb}`, of) : t('ask_resume_group', of);
  ask(page, { title: t(`do_${verb}`), text, button: t(`do_${verb}`), run: () => changed(verb, of) });
}

async function changed(verb, { topic, group }) {
  await post(path`/v1/topics/${topic}/` + verb + query({ group }));
  const whose = group === undefined ? topic : t('group_in', { group, topic });
  return { kind: 'good', text: t(`did_${verb}`, { whose }) };
}
