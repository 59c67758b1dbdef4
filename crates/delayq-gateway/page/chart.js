// Bars that are brushed with a pointer, or walked along with keys.

import { html, nothing, svg } from './vendor/lit-html.js';
import { count, t } from './words.js';

/** Units of the drawing: each bar is 10 wide. */
const BAR = 10;
const HEIGHT = 100;

/** The bars that are chosen: the first and the last place; -1 before the first choice. One chart is on a page. */
const NONE = { from: -1, to: -1, brushing: false };
let chosen = { key: '', ...NONE };

/** Bars in a row; `narrow` gets the first and the last bar that were chosen. */
export function chart(bars, { label, dense, narrow }) {
  const key = bars[0].words + bars.length;
  if (chosen.key !== key && !chosen.brushing) chosen = { key, ...NONE };
  const max = Math.max(1, ...bars.map(({ count }) => count ?? 0));
  const [low, high] = [Math.min(chosen.from, chosen.to), Math.max(chosen.from, chosen.to)];
  const open = () => high >= 0 && narrow(bars[low], bars[high]);
  const said = (at) => t('bar', { when: bars[at].words, n: bars[at].count === null ? t('not_counted') : count(bars[at].count) });
  return html`
    <div class="chart ${dense ? 'dense' : ''}">
      ${dense ? html`<p class="faint">${t('highest', { n: count(max) })}</p>` : html`<div class="over">${bars.map(({ count: n }) => html`<span>${n === null ? '?' : compact(n)}</span>`)}</div>`}
      <svg viewBox="0 0 ${bars.length * BAR} ${HEIGHT}" preserveAspectRatio="none" tabindex="0" role="slider"
        aria-label=${label} aria-valuemin="1" aria-valuemax=${bars.length} aria-valuenow=${Math.max(1, high + 1)} aria-valuetext=${said(Math.max(0, chosen.to))}
        @keydown=${(event) => walk(event, bars.length, open)} @pointerdown=${press} @pointermove=${(event) => drag(event, bars.length)}
        @pointerup=${(event) => release(event, bars, narrow)}>
        ${bars.map((bar, at) => drawn(bar, at, max, at >= low && at <= high))}
      </svg>
      <div class="under">${bars.map(({ label }, at) => html`<span>${!dense || at === 0 || at === bars.length - 1 ? label : nothing}</span>`)}</div>
      ${high < 0 ? nothing : html`<p class="chosen">${low === high ? said(low) : t('chosen', { from: bars[low].words, to: bars[high].words })}
        <button type="button" @click=${open}>${t('open')}</button></p>`}
    </div>`;
}

function drawn({ count, words, is_overdue }, at, max, is_chosen) {
  const height = count > 0 ? Math.max(3, (count / max) * HEIGHT) : 0;
  return svg`<g class="${is_chosen ? 'chosen' : ''} ${is_overdue ? 'late' : ''}">
    <title>${t('bar', { when: words, n: count ?? t('not_counted') })}</title>
    <rect class="room" x=${at * BAR} y="0" width=${BAR} height=${HEIGHT}></rect>
    <rect class="bar" x=${at * BAR + 1} y=${HEIGHT - height} width=${BAR - 2} height=${height}></rect>
  </g>`;
}

const compact = (n) => new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(n);

/** Chooses bars, and shows it. */
function choose(change) {
  chosen = { ...chosen, ...change };
  dispatchEvent(new Event('choose'));
}

function walk(event, bars, open) {
  const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -bars, End: bars }[event.key];
  if (event.key === 'Enter' || event.key === ' ') open();
  else if (step === undefined) return;
  else {
    const to = Math.min(bars - 1, Math.max(0, chosen.to + step));
    choose({ to, from: event.shiftKey ? chosen.from : to });
  }
  event.preventDefault();
}

const under = (event, bars) => {
  const { left, width } = event.currentTarget.getBoundingClientRect();
  return Math.min(bars - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * bars)));
};

function press(event) {
  const at = under(event, event.currentTarget.querySelectorAll('g').length);
  event.currentTarget.setPointerCapture(event.pointerId);
  choose({ from: at, to: at, brushing: true });
}

function drag(event, bars) {
  if (chosen.brushing) choose({ to: under(event, bars) });
}

function release(event, bars, narrow) {
  if (!chosen.brushing) return;
  const { from } = chosen;
  const to = under(event, bars.length);
  choose({ to, brushing: false });
  narrow(bars[Math.min(from, to)], bars[Math.max(from, to)]);
}
