// How late messages became ready in each minute of the last hour.

import { get } from './api.js';
import { html, nothing, svg } from './vendor/lit-html.js';
import { count, span, t } from './words.js';

const MINUTE_MS = 60_000;
const MINUTES = 60;
/** Units of the drawing. */
const [BAR, HEIGHT] = [10, 60];

/** The minutes change once a minute. */
const FRESH_MS = 10_000;

/** The latest answer, its time, and the call under way. No screen waits for it. */
let latest = null;
let read_ms = 0;
let asking = null;

/** The minutes as of the last answer; null before the first, and for tenants, who do not see the deployment. */
export function lateness() {
  if (asking === null && Date.now() - read_ms > FRESH_MS) {
    asking = get('/v1/processes')
      .then((answer) => (latest = answer.lateness))
      .catch(() => (latest = null))
      .finally(() => ([asking, read_ms] = [null, Date.now()]));
  }
  return latest;
}

/** The strip: one bar a minute, as high as the lateness that one message of a hundred had; the latest at the right. */
export function strip(minutes) {
  if (!minutes?.length) return nothing;
  const last = minutes.at(-1);
  const max = Math.max(1, ...minutes.map(({ p99_ms }) => p99_ms ?? 0));
  return html`
    <section aria-label=${t('lateness')}>
      <h2>${t('lateness')}</h2>
      <p>${t('lateness_now', { p50: late(last.p50_ms), p99: late(last.p99_ms), n: count(last.messages) })}</p>
      <div class="strip"><svg viewBox="0 0 ${MINUTES * BAR} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${t('lateness_hour', { max: late(max) })}>
        ${minutes.map((minute) => bar(minute, max))}
      </svg></div>
      <p class="faint">${t('lateness_hour', { max: late(max) })}</p>
    </section>`;
}

const late = (ms) => (ms === null ? t('beyond') : span(ms));

function bar({ ago_ms, messages, p50_ms, p99_ms }, max) {
  const at = MINUTES - 1 - Math.floor(ago_ms / MINUTE_MS);
  const height = Math.max(2, ((p99_ms ?? max) / max) * HEIGHT);
  return svg`<g><title>${t('lateness_minute', { ago: span(ago_ms), p50: late(p50_ms), p99: late(p99_ms), n: count(messages) })}</title>
    <rect class="bar" x=${at * BAR + 1} y=${HEIGHT - height} width=${BAR - 2} height=${height}></rect></g>`;
}
