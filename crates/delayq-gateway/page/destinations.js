// Where messages go, and where recorded writes come from: destinations with their circuits; spool, intakes and outbox.

import { get } from './api.js';
import { table, unseen } from './table.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, size, span, t } from './words.js';

export const name = 'destinations';
export const title = () => t('destinations');

export const load = () => get('/v1/processes');

export const show = (_place, { processes, destinations, sources, missing }) => html`
  <h1>${t('destinations')}</h1>
  ${missing.map(unseen)}
  ${processes.filter(({ state }) => state === 'silent').map(({ process, why }) => unseen(why.startsWith(process) ? why : `${process}: ${why}`))}
  <p class="faint">${t('about_destinations')}</p>
  ${destinations.length > 0 ? ends(destinations) : html`<p>${t('no_destinations')}</p>`}
  <h2>${t('sources')}</h2>
  <p class="faint">${t('about_sources')}</p>
  ${sources.length > 0 ? table(t('sources'), COLUMNS, sources) : html`<p>${t('no_sources')}</p>`}
  <p class="faint">${t('about_processes')}</p>`;

const BADGES = { closed: 'ready', half_open: 'warn', open: 'dead', rests: 'dead' };
/** Those that need somebody come first. */
const ORDER = ['open', 'rests', 'half_open', 'closed'];

function ends(destinations) {
  const sorted = [...destinations].sort((one, other) => ORDER.indexOf(one.circuit) - ORDER.indexOf(other.circuit));
  const columns = [
    ['destination', ({ destination, sink }) => destination || sink],
    ['sink', ({ sink }) => sink],
    ['circuit', ({ circuit, reason }) => html`<span class="badge ${BADGES[circuit]}">${t(`circuit_${circuit}`)}</span> ${t(`about_circuit_${circuit}`)}
      ${reason ? html`<br><span class="reason">${t('last_error', { reason })}</span>` : nothing}`],
    ['process', ({ process }) => process],
  ];
  return table(t('destinations'), columns, sorted);
}

const some = (n) => (n > 0 ? html`<span class="bad">${count(n)}</span>` : '0');

const COLUMNS = [
  ['source', ({ source }) => source],
  ['waiting', ({ waiting }) => count(waiting), 'number'],
  ['resting', ({ resting }) => some(resting), 'number'],
  ['rejected', ({ rejected }) => some(rejected), 'number'],
  ['oldest', ({ waiting, resting, oldest_age_ms }) => (waiting + resting > 0 ? span(oldest_age_ms) : '–')],
  ['takes', ({ size_bytes }) => (size_bytes === null ? '–' : size(size_bytes))],
  ['process', ({ process }) => process],
];
