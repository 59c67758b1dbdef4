// The messages that the reader has chosen: some by their ids, so a list that moves on changes nothing, or all that match.

import { DEEDS, is_dangerous, may } from './actions.js';
import { act_on_all, act_on_some } from './bulk.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t } from './words.js';

/** The latest selection; `of` is the filter of its list. */
let latest = { of: null, some: new Map(), all: false };

/**
 * The selection of a list: `filter` is what an operation would match, `total` how many that is, if it is known.
 * Null for a reader who may change nothing.
 */
export function selection(page, filter, total = null) {
  if (!may(page, 'act')) return null;
  const of = JSON.stringify(filter);
  if (latest.of !== of) latest = { of, some: new Map(), all: false };
  return { page, filter, total, chosen: latest };
}

const key = ({ topic, id, group }) => JSON.stringify([topic, id, group ?? null]);

const is_chosen = ({ chosen }, message) => chosen.all || chosen.some.has(key(message));

function choose({ page, chosen }, messages, on) {
  for (const message of messages) on ? chosen.some.set(key(message), message) : chosen.some.delete(key(message));
  page.show();
}

/** The box of a message. */
export const box = (selection, message) => html`
  <input type="checkbox" aria-label=${t('choose', { id: message.id })} .checked=${is_chosen(selection, message)} ?disabled=${selection.chosen.all}
    @change=${(event) => choose(selection, [message], event.target.checked)}>`;

/** The box of all messages of the page. */
export function box_of_all(selection, messages) {
  const n = messages.filter((message) => is_chosen(selection, message)).length;
  return html`
    <input type="checkbox" aria-label=${t('choose_page')} .checked=${n === messages.length} .indeterminate=${n > 0 && n < messages.length}
      ?disabled=${selection.chosen.all} @change=${(event) => choose(selection, messages, event.target.checked)}>`;
}

/** The bar above a list: how many are chosen, and what can be done with them. `more`: the list has other pages. */
export function bar(selection, messages, more) {
  const { page, filter, total, chosen } = selection;
  const { state } = filter;
  const n = chosen.some.size;
  const set = (all) => () => {
    chosen.all = all;
    if (!all) chosen.some.clear();
    page.show();
  };
  const act = (deed) => () => (chosen.all ? act_on_all(page, deed, filter) : act_on_some(page, deed, [...chosen.some.values()], () => chosen.some.clear()));
  const deeds = chosen.all || n > 0 ? DEEDS[state] : [];
  const has_all = more && state !== 'leased';
  return html`
    <div class="bar" role="group" aria-label=${t('chosen_messages')}>
      <label class="whole">${box_of_all(selection, messages)} ${t('choose_page')}</label>
      ${chosen.all ? html`<b>${total === null ? t('all_match') : t('all_match_n', { n: count(total) })}</b>` : html`<span>${t('n_chosen', { n: count(n) })}</span>`}
      ${deeds.map((deed) => html`<button class=${is_dangerous(deed) ? 'danger' : ''} @click=${act(deed)}>${chosen.all ? t(`do_${deed}_all`) : t(`do_${deed}_n`, { n: count(n) })}</button>`)}
      ${has_all && !chosen.all ? html`<button class="plain" @click=${set(true)}>${total === null ? t('choose_all') : t('choose_all_n', { n: count(total) })}</button>` : nothing}
      ${n > 0 || chosen.all ? html`<button class="plain" @click=${set(false)}>${t('choose_none')}</button>` : nothing}
    </div>`;
}
