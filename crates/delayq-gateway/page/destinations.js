// Where messages go, and where recorded writes come from: destinations with their circuits; spool, intakes and outbox.

import { get } from './api.js';
import { html } from './vendor/lit-html.js';
import { count, size, span, t } from './words.js';

export const name = 'destinations';
export const title = () => t('destinations');

export const load = () => get('/v1/processes');

export const show = (_place, { processes, destinations, sources, missing }) => html`
  <h1>${t('destinations')}</h1>
  ${missing.map((why) => html`<p class="note bad"><span><b>${t('not_seen')}</b> ${why}</span></p>`)}
  ${processes.filter(({ state }) => state === 'silent').map(({ process, why }) => html`<p class="note bad"><span><b>${t('not_seen')}</b> ${process}: ${why}</span></p>`)}
  <p class="faint">${t('about_destinations')}</p>
  ${destinations.length > 0 ? ends(destinations) : html`<p>${t('no_destinations')}</p>`}
  <h2>${t('sources')}</h2>
  <p class="faint">${t('about_sources')}</p>
  ${sources.length > 0 ? table(sources) : html`<p>${t('no_sources')}</p>`}
  <p class="faint">${t('about_processes')}</p>`;

const BADGES = { closed: 'ready', half_open: 'warn', open: 'dead', rests: 'dead' };
/** Those that need somebody come first. */
const ORDER = ['open', 'rests', 'half_open', 'closed'];

function ends(destinations) {
  const sorted = [...destinations].sort((one, other) => ORDER.indexOf(one.circuit) - ORDER.indexOf(other.circuit));
  return html`
    <table class="cards-when-narrow">
      <caption class="hidden">${t('destinations')}</caption>
      <thead><tr><th scope="col">${t('destination')}</th><th scope="col">${t('sink')}</th><th scope="col">${t('circuit')}</th><th scope="col">${t('process')}</th></tr></thead>
      <tbody>${sorted.map(({ process, sink, destination, circuit }) => html`
        <tr><th scope="row">${destination || sink}</th><td data-label=${t('sink')}>${sink}</td>
          <td data-label=${t('circuit')}><span class="badge ${BADGES[circuit]}">${t(`circuit_${circuit}`)}</span> ${t(`about_circuit_${circuit}`)}</td>
          <td data-label=${t('process')}>${process}</td></tr>`)}</tbody>
    </table>`;
}

const table = (sources) => html`
  <table class="cards-when-narrow">
    <caption class="hidden">${t('sources')}</caption>
    <thead><tr><th scope="col">${t('source')}</th><th scope="col" class="number">${t('waiting')}</th><th scope="col" class="number">${t('resting')}</th>
      <th scope="col" class="number">${t('rejected')}</th><th scope="col">${t('oldest')}</th><th scope="col">${t('takes')}</th><th scope="col">${t('process')}</th></tr></thead>
    <tbody>${sources.map(row)}</tbody>
  </table>`;

const row = ({ process, source, waiting, resting, rejected, oldest_age_ms, size_bytes }) => html`
  <tr><th scope="row">${source}</th>
    <td data-label=${t('waiting')} class="number">${count(waiting)}</td>
    <td data-label=${t('resting')} class="number">${resting > 0 ? html`<span class="bad">${count(resting)}</span>` : '0'}</td>
    <td data-label=${t('rejected')} class="number">${rejected > 0 ? html`<span class="bad">${count(rejected)}</span>` : '0'}</td>
    <td data-label=${t('oldest')}>${waiting + resting > 0 ? span(oldest_age_ms) : '–'}</td>
    <td data-label=${t('takes')}>${size_bytes === null ? '–' : size(size_bytes)}</td>
    <td data-label=${t('process')}>${process}</td></tr>`;
