// The fleet: the shards by owner, the timers and their drains, and the processes with their lateness.

import { get, now } from './api.js';
import { LATE_MS } from './overview.js';
import { table, unseen } from './table.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, span, t } from './words.js';

export const name = 'fleet';
export const title = () => t('fleet');

export async function load() {
  const [{ shards, missing }, timers, { processes, missing: unseen }] = await Promise.all([get('/v1/shards'), get('/v1/timers'), get('/v1/processes')]);
  return { shards, missing: [...missing, ...unseen], timers, processes };
}

/** Owners have a letter and one of six colours, by the order of their names. */
const COLOURS = 6;
const letter = (at) => (at < 26 ? String.fromCharCode(65 + at) : String(at + 1));

export function show(_place, { shards, missing, timers, processes }) {
  const owners = timers.owners.map(({ name }) => name);
  return html`
    <h1>${t('fleet')}</h1>
    ${missing.map(unseen)}
    <h2>${t('shards')}</h2>
    <p class="faint">${t('about_shards')}</p>
    <ul class="grid" aria-label=${t('shards')}>${shards.map((shard) => tile(shard, owners))}</ul>
    <h2>${t('timers')}</h2>
    ${owned(timers, owners)} ${drains(timers)}
    <h2>${t('processes')}</h2>
    ${processes.length > 0 ? table(t('processes'), COLUMNS, processes) : html`<p>${t('no_processes')}</p>`}
    <p class="faint">${t('about_processes')}</p>`;
}

function tile({ shard, node, messages, owner, held, next_pump_ms }, owners) {
  const at = owners.indexOf(owner);
  const late = lateness(next_pump_ms);
  const is_bad = owner === '' || held || late !== null;
  const words = [owner === '' ? t('unowned') : owner, t('n_messages', { n: count(messages) }), node && t('on_node', { node }), held && t('clock_held'), late].filter(Boolean);
  return html`<li class="tile ${owner === '' ? 'nobody' : `owner-${at % COLOURS}`} ${is_bad ? 'bad' : ''}" title=${words.join(t('comma'))}>
    <b>${shard}</b> <span aria-hidden="true">${owner === '' ? '–' : letter(at)}</span><span class="hidden">${words.join(t('comma'))}</span>
    ${held || late !== null ? html`<span aria-hidden="true">${'!'}</span>` : nothing}</li>`;
}

function lateness(next_pump_ms) {
  const late_ms = next_pump_ms === null ? 0 : now() - next_pump_ms;
  return late_ms > LATE_MS ? t('overdue_by', { span: span(late_ms) }) : null;
}

function owned({ owners }, names) {
  const columns = [
    ['timer', ({ name }) => html`<span class="tile owner-${names.indexOf(name) % COLOURS}">${letter(names.indexOf(name))}</span> ${name}`],
    ['shards', ({ shards }) => count(shards.length), 'number'],
    ['which', ({ shards }) => ranges(shards), 'wraps'],
    ['epoch', ({ highest_epoch }) => count(highest_epoch), 'number'],
  ];
  return table(t('timers'), columns, owners);
}

/** Numbers in order, as ranges. */
function ranges(numbers) {
  const parts = [];
  for (const n of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(t('comma'));
}

/** The members by etcd, and those that are being drained. */
function drains({ fleet }) {
  if (fleet === null) return html`<p class="faint">${t('no_fleet')}</p>`;
  return html`<p>${t('members', { n: count(fleet.members.length) })} ${fleet.drains.length > 0 ? t('drained', { names: fleet.drains.map(({ name }) => name).join(t('comma')) }) : nothing}</p>`;
}

const STATES = { ready: 'ready', drained: 'warn', not_ready: 'dead', silent: 'dead' };

const COLUMNS = [
  ['process', ({ process }) => process],
  ['state', ({ state, why }) => html`<span class="badge ${STATES[state]}">${t(`process_${state}`)}</span> ${why ?? nothing}`],
  ['shards', ({ shards }) => (shards === null ? '–' : count(shards)), 'number'],
  ['late_p50', ({ p50_ms }) => late(p50_ms), 'number'],
  ['late_p99', ({ p99_ms }) => late(p99_ms), 'number'],
  ['most_overdue', ({ overdue_ms }) => (overdue_ms > 0 ? span(overdue_ms) : '–'), 'number'],
];

/** The bound below which a part of the messages were late. */
const late = (ms) => (ms === null ? '–' : t('within', { span: span(ms) }));
