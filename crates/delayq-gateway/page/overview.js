// The overview: how many messages are in which state, and what is late, by topic.

import { get, now } from './api.js';
import { lateness, strip } from './lateness.js';
import { table } from './table.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, distance, exact, rate, span, t } from './words.js';
import { status, wrong } from './wrong.js';

export const name = 'overview';
export const title = () => t('overview');

/** Most topics that are shown; each is counted at every look. */
const MAX_TOPICS = 500;
/** Younger than this, a message that nobody took is no news. */
export const LATE_MS = 10_000;
export const STATES = ['delayed', 'ready', 'leased', 'dead'];

export async function load(_place, before) {
  const minutes = lateness();
  const [{ topics, next }, state] = await Promise.all([get(`/v1/topics?limit=${MAX_TOPICS}`), status()]);
  const at_ms = now();
  return { state, minutes, topics, more: next !== null, at_ms, rates: rates(topics, at_ms, before) };
}

/** Puts and deliveries a second since the last look, by topic. */
function rates(topics, at_ms, before) {
  if (!before) return new Map();
  const seconds = (at_ms - before.at_ms) / 1000;
  const old = new Map(before.topics.map((topic) => [topic.topic, topic]));
  const of = ({ topic, accepted, delivered }) => {
    const was = old.get(topic);
    return was && seconds > 0 ? [topic, [(accepted - was.accepted) / seconds, (delivered - was.delivered) / seconds]] : [topic, null];
  };
  return new Map(topics.map(of));
}

export function show({ sort }, { state, minutes, topics, more, rates }) {
  const sum = (state) => topics.reduce((all, topic) => all + topic[state], 0);
  return html`
    <h1>${t('overview')}</h1>
    <dl class="cards">${STATES.map((state) => card(state, sum(state)))}</dl>
    ${wrong(state)}
    ${strip(minutes)}
    <h2>${t('topics')}</h2>
    ${topics.length === 0 ? html`<p>${t('no_topics')}</p>` : table(t('topics'), columns(rates), sorted(topics, sort))}
    ${more ? html`<p>${t('more_topics', { n: MAX_TOPICS })}</p>` : nothing}`;
}

const card = (state, n) => html`
  <div class="card ${state === 'dead' && n > 0 ? 'bad' : ''}">
    <dt>${t(`state_${state}`)}</dt>
    <dd><a href=${to({ sort: state })}><b>${count(n)}</b></a> <span class="faint">${t(`about_${state}`)}</span></dd>
  </div>`;

/** The place that has the oldest unhandled messages first; others have the most of a state first. */
const OLDEST = 'oldest';

function sorted(topics, by) {
  if (!STATES.includes(by) && by !== OLDEST) return topics;
  const rank = by === OLDEST ? ({ oldest_unhandled_ms }) => -(oldest_unhandled_ms ?? Infinity) : (topic) => topic[by];
  return [...topics].sort((one, other) => rank(other) - rank(one));
}

const columns = (rates) => [
  ['topic', (numbers) => html`<a href=${to({ topic: numbers.topic })}>${numbers.topic}</a> ${paused(numbers)}`],
  ...STATES.map((state) => [`state_${state}`, (numbers) => number(numbers, state), 'number', { sort: state }]),
  ['next_due', next_due],
  ['oldest_unhandled', unhandled, '', { sort: OLDEST }],
  ['rates', ({ topic }) => (rates.get(topic) ?? []).map(rate).join(' / ') || '…', 'number'],
];

const number = ({ topic, ...numbers }, state) =>
  numbers[state] > 0 ? html`<a class=${state === 'dead' ? 'bad' : ''} href=${to({ topic, state })}>${count(numbers[state])}</a>` : html`<span class="faint">${'0'}</span>`;

/** Whether and in which part a topic is paused. */
export const paused = ({ paused }) => (paused > 0 ? html`<span class="badge warn">${t('paused')}</span>` : nothing);

function next_due({ delayed, next_due_ms }) {
  if (delayed === 0 || next_due_ms === null) return html`<span class="faint">–</span>`;
  const late_ms = now() - next_due_ms;
  if (late_ms > LATE_MS) return html`<span class="bad">${t('overdue_by', { span: span(late_ms) })}</span>`;
  return html`<time datetime=${new Date(next_due_ms).toISOString()} title=${exact(next_due_ms)}>${distance(next_due_ms)}</time>`;
}

function unhandled({ oldest_unhandled_ms }) {
  if (oldest_unhandled_ms === null) return html`<span class="faint">–</span>`;
  const age_ms = Math.max(0, now() - oldest_unhandled_ms);
  return html`<span class=${age_ms > LATE_MS ? 'bad' : ''} title=${exact(oldest_unhandled_ms)}>${span(age_ms)}</span>`;
}
