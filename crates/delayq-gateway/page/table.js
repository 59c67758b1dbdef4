// What screens have in common: tables, facts, fields, and the way to another page.

import { here, to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { t } from './words.js';

/** A long table grows by so many rows a frame: no frame takes long. */
const STEP = 50;
let room = STEP;
let is_short = false;

/** Begins with the first rows again. */
export const shrink = () => (room = STEP);

/** Makes room for more rows. False if every row was shown. */
export function grow() {
  const grows = is_short;
  if (grows) room += STEP;
  is_short = false;
  return grows;
}

/**
 * A table, whose rows become cards in a narrow window. A column is the key of its heading, what answers the cell of a row, a class,
 * and the place that is sorted by it; a missing column is left out. The cell at `head` names the row.
 */
export function table(caption, columns, rows, head = 0) {
  const shown = columns.filter(Boolean);
  const heading = ([key, , kind = '', sorts]) => html`
    <th scope="col" class=${kind} aria-sort=${sorts && to(sorts) === to(here()) ? 'descending' : nothing}>
      ${kind === 'box' ? html`<span class="hidden">${t(key)}</span>` : sorts ? html`<a href=${to(sorts)}>${t(key)}</a>` : t(key)}
    </th>`;
  is_short ||= rows.length > room;
  const cell = (row) => ([key, of, kind = ''], at) => at === head ? html`<th scope="row" class=${kind}>${of(row)}</th>` : html`<td data-label=${t(key)} class=${kind}>${of(row)}</td>`;
  return html`
    <table class="cards-when-narrow">
      <caption class="hidden">${caption}</caption>
      <thead><tr>${shown.map(heading)}</tr></thead>
      <tbody>${rows.slice(0, room).map((row) => html`<tr>${shown.map(cell(row))}</tr>`)}</tbody>
    </table>`;
}

/** Names with their values; a missing pair is left out. */
export const facts = (pairs) => html`<dl class="facts">${pairs.filter(Boolean).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;

/** A field for a short text. */
export const field = (label, name, value = '', required = true) => html`
  <label class="field">${label} <input name=${name} .value=${value} ?required=${required} autocomplete="off" spellcheck="false"></label>`;

/** The links to the first and the next page of a list. */
export const pager = (place, next) => html`
  <p class="pager">
    ${place.after ? html`<a href=${to({ ...place, after: null })}>${t('first_page')}</a>` : nothing}
    ${next ? html`<a href=${to({ ...place, after: next })}>${t('next_page')}</a>` : nothing}
  </p>`;

/** A part of the deployment that does not answer, and why. */
export const unseen = (why) => html`<p class="note bad"><span><b>${t('not_seen')}</b> ${why}</span></p>`;
