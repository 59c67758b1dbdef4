// Texts, numbers and times in the reader's language.

import { now } from './api.js';
import { LANGUAGES, TEXTS } from './texts.js';
import { here } from './url.js';
import { html } from './vendor/lit-html.js';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** The language of the page: that of the URL, or that of the browser. */
export function language() {
  const asked = here().lang ?? navigator.language;
  return asked.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

const locale = () => (language() === 'zh' ? 'zh-CN' : navigator.language.startsWith('en') ? navigator.language : 'en-GB');

/** The text of a key, with values for its placeholders. */
export function t(key, values = {}) {
  const text = TEXTS[key]?.[LANGUAGES.indexOf(language())] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** True if there is a text of this key. */
export const has_text = (key) => key in TEXTS;

/** Formats are dear to make, and a screen needs thousands. */
const formats = new Map();

function format(Kind, language, options) {
  const key = language + JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Kind(language, options));
  return formats.get(key);
}

export const count = (n) => format(Intl.NumberFormat, locale()).format(n ?? 0);

/** A count, or the least that it is. */
export const so_many = (n, is_exact) => (is_exact ? count(n) : t('at_least', { n: count(n) }));

/** A rate a second, with as many digits as it deserves. */
export const rate = (n) => format(Intl.NumberFormat, locale(), { maximumFractionDigits: n < 10 ? 1 : 0 }).format(n);

/** A duration in its largest unit, or in its two largest. */
export function span(ms) {
  const units = [[YEAR, 'span_y'], [DAY, 'span_d'], [HOUR, 'span_h'], [MINUTE, 'span_m'], [SECOND, 'span_s']];
  const at = units.findIndex(([unit]) => ms >= unit);
  if (at < 0) return t('span_ms', { n: Math.max(0, Math.round(ms)) });
  const [unit, key] = units[at];
  const whole = Math.floor(ms / unit);
  const first = t(key, { n: count(whole) });
  const smaller = units[at + 1];
  const rest = smaller && whole < 10 ? Math.floor((ms % unit) / smaller[0]) : 0;
  return rest > 0 ? `${first} ${t(smaller[1], { n: rest })}` : first;
}

/** How far a time is from now, in words. */
export function distance(ms) {
  const away = ms - now();
  return away >= 0 ? t('time_in', { span: span(away) }) : t('time_ago', { span: span(-away) });
}

/** A time by the reader's clock, to the second. */
export function exact(ms) {
  const form = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  return format(Intl.DateTimeFormat, 'sv-SE', form).format(ms);
}

/** The zone of the times that are shown. */
export function zone() {
  const parts = format(Intl.DateTimeFormat, 'en-GB', { timeZoneName: 'longOffset' }).formatToParts(now());
  const offset = parts.find((part) => part.type === 'timeZoneName')?.value.replace('GMT', 'UTC') ?? '';
  return `${Intl.DateTimeFormat().resolvedOptions().timeZone} (${offset})`;
}

/** A time: exact, and how far away. */
export function time(ms) {
  if (ms === null || ms === undefined) return html`<span class="faint">–</span>`;
  return html`<time datetime=${new Date(ms).toISOString()}>${exact(ms)} <span class="faint">${distance(ms)}</span></time>`;
}

export function size(bytes) {
  if (bytes < 1024) return t('size_b', { n: count(bytes) });
  return bytes < 1024 * 1024 ? t('size_k', { n: rate(bytes / 1024) }) : t('size_m', { n: rate(bytes / 1024 / 1024) });
}

/** What became of a message, or the code of the refusal. */
export function outcome(word) {
  const key = `outcome_${word.replace(' ', '_')}`;
  return has_text(key) ? t(key) : word;
}

/** The filter of an operation in words. */
export function filter_words({ topics, group, state, from, to, headers, reason }) {
  const parts = [
    topics?.length > 0 && t('filter_topics', { topics: topics.join(t('comma')) }),
    group && t('filter_group', { group }),
    from && t('filter_from', { at: exact(Date.parse(from)) }),
    to && t('filter_to', { at: exact(Date.parse(to)) }),
    ...Object.entries(headers ?? {}).map(([name, value]) => t('filter_header', { name, value })),
    reason && t('filter_reason', { reason }),
  ];
  return [t(`filter_${state}`), ...parts.filter(Boolean)].join(t('comma'));
}

/** The sentence for the code of a refusal, if there is one. */
export function sentence(code) {
  const key = `problem_${code.replace('DQ-', '')}`;
  return has_text(key) ? t(key) : null;
}

/** What a refusal means: its sentence where there is one, and what the gateway said. */
export function refused(refusal) {
  const { code, detail } = refusal.problem;
  const said = sentence(code);
  return said ? html`${said} <span class="faint">${code}: ${detail}</span>` : html`${code}: ${detail}`;
}
