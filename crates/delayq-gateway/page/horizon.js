// The horizon of a topic: how many messages become due when, and the way into any part of it.

import { get, path, query } from './api.js';
import { chart } from './chart.js';
import { table } from './table.js';
import { to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, exact, span, t } from './words.js';

/** The horizon is counted again after this long. */
const FRESH_MS = 15_000;

/** Counts of a range, or of all times; not more often than they are worth. A range with one end has no bars. */
export async function counted({ topic, group, from, to: until }, before) {
  const key = JSON.stringify([topic, group, from, until]);
  if (before?.key === key && Date.now() - before.read_ms < FRESH_MS) return before;
  const has_bars = Boolean(from) === Boolean(until);
  const horizon = has_bars ? await get(path`/v1/topics/${topic}/horizon` + query({ group, from, to: until })) : null;
  return { key, horizon, read_ms: Date.now() };
}

/** The gateway refuses earlier numbers, which look like seconds; later times are no dates. */
const EARLIEST_MS = Date.parse('2001-09-09T01:46:40Z');
const LATEST_MS = Date.parse('9999-12-31T00:00:00Z');

/** The panel; `narrow` opens a range, which also filters the list. */
export function panel(place, { horizon }, narrow) {
  if (horizon === null) return html`<section aria-label=${t('horizon')}><h2>${t('horizon')}</h2><p>${range_text(place)} ${all_times(place)}</p></section>`;
  const { intervals, now_ms } = horizon;
  const is_range = Boolean(place.from);
  const bars = intervals.map((interval) => bar(place, interval, now_ms, is_range));
  const total = intervals.reduce((all, { count }) => all + (count ?? 0), 0);
  return html`
    <section aria-label=${t('horizon')}>
      <h2>${t('horizon')}</h2>
      <p>${is_range ? range_text(place) : t('horizon_whole', { n: count(horizon.delayed) })}
        ${is_range ? html`– <b>${t('horizon_in', { n: count(total) })}</b>` : nothing}</p>
      ${intervals.some(({ count }) => count === null) ? html`<p class="faint">${t('horizon_cut')}</p>` : nothing}
      ${chart(bars, { label: t('horizon'), dense: is_range, narrow: (first, last) => narrow(range_of(first.interval, last.interval)) })}
      <p class="buttons">
        ${is_range ? html`<a href=${to({ ...place, ...wider(place), after: null })}>${t('wider')}</a>
          ${all_times(place)}` : nothing}
      </p>
      <p class="faint">${t('horizon_help')}</p>
      <details><summary>${t('as_table')}</summary><div class="scroll">${table(t('horizon'), COLUMNS, bars)}</div></details>
    </section>`;
}

const all_times = (place) => html`<a href=${to({ ...place, from: null, to: null, after: null })}>${t('all_times')}</a>`;

function bar(place, interval, now_ms, is_range) {
  const { from_ms, to_ms, count } = interval;
  const words = is_range ? t('from_to', { from: exact(from_ms), to: exact(to_ms) }) : ahead(from_ms, to_ms, now_ms);
  const label = is_range ? exact(from_ms) : until(to_ms, now_ms);
  return { interval, count, label, words, is_overdue: to_ms <= now_ms, href: to({ ...place, ...range_of(interval, interval), after: null }) };
}

/** An interval of the whole horizon in words. */
function ahead(from_ms, to_ms, now_ms) {
  if (to_ms <= now_ms) return t('overdue');
  if (from_ms <= now_ms) return until(to_ms, now_ms);
  const from = span(from_ms - now_ms);
  return to_ms > LATEST_MS ? t('ahead_open', { from }) : t('ahead', { from, to: span(to_ms - now_ms) });
}

/** The same in short: its end. */
function until(to_ms, now_ms) {
  if (to_ms <= now_ms) return t('overdue');
  return to_ms > LATEST_MS ? t('later') : t('within', { span: span(to_ms - now_ms) });
}

/** The range of some intervals; an open end is left out. */
function range_of(first, last) {
  const is_open = last.to_ms > LATEST_MS;
  return { from: first.from_ms === 0 ? null : first.from_ms, to: is_open ? null : last.to_ms };
}

/** A range around this one, three times as wide. */
function wider({ from, to: until }) {
  const [a, b] = [Number(from), Number(until)];
  if (!a || !b) return { from: null, to: null };
  return { from: Math.max(EARLIEST_MS, a - (b - a)), to: Math.min(LATEST_MS, b + (b - a)) };
}

function range_text({ from, to: until }) {
  if (!from) return t('range_until', { to: exact(Number(until)) });
  return until ? t('from_to', { from: exact(Number(from)), to: exact(Number(until)) }) : t('range_from', { from: exact(Number(from)) });
}

const COLUMNS = [
  ['when_due', ({ words, href }) => html`<a href=${href}>${words}</a>`],
  ['messages', ({ count: n }) => (n === null ? t('not_counted') : count(n)), 'number'],
];
