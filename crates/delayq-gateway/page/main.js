// Loads the screen that the URL names, shows it, and keeps it fresh while somebody looks.

import { Refusal, call, get, now, post } from './api.js';
import * as destinations from './destinations.js';
import * as find from './find.js';
import * as fleet from './fleet.js';
import { frame } from './frame.js';
import * as log from './log.js';
import { FIRST, asks, login, returned, ways } from './login.js';
import * as message from './message.js';
import * as operations from './operations.js';
import * as overview from './overview.js';
import { grow, shrink } from './table.js';
import * as topic from './topic.js';
import { follow, here, rename } from './url.js';
import { html, nothing, render } from './vendor/lit-html.js';
import { language, refused, t } from './words.js';

/** Pause between two looks; after a slow look longer, so that a reader takes a tenth of one connection's time at most. */
const EVERY_MS = 3_000;
const PAUSES = 10;

/** `place` is where the reader is; `data` is of `shown`, which may still be the place before. */
const state = { me: null, place: here(), shown: null, data: null, failure: null, seen_ms: null, said: null, refusal: null, looks: 0, timer: null, frame: 0, login_failed: null, logins: null };

const SCREENS = { find, fleet, destinations, operations, actions: log };

/** The screen of a place. */
function screen({ view, topic: of, id }) {
  if (Object.hasOwn(SCREENS, view ?? '')) return SCREENS[view];
  if (of && id) return message;
  return of ? topic : overview;
}

/** Another of these is another subject, and not another part of the same. */
const SUBJECT = ['topic', 'id', 'operation'];

/** What screens may do: say what happened, show themselves again, look again. */
const page = {
  get me() {
    return state.me;
  },
  say(text, kind = 'good') {
    state.said = text && { text, kind };
    show();
  },
  show,
  look,
};

function show() {
  const { place, me, failure, seen_ms, said, refusal } = state;
  const current = screen(place);
  document.documentElement.lang = language() === 'zh' ? 'zh-CN' : 'en';
  document.title = `${refusal ? t('log_in') : current.title(place)} – delayq`;
  const around = { screen: refusal ? null : current.name, me, failure, seen_ms, said, dismiss: () => page.say(null), log_out };
  render(frame({ ...around, inner: inner(current) }), document.body);
  cancelAnimationFrame(state.frame);
  if (grow()) state.frame = requestAnimationFrame(show);
}

function inner(current) {
  const { shown, data, failure, refusal, logins } = state;
  if (refusal) return login({ failure: refusal, logins, done: logged_in, show: asked });
  if (data === null) return html`<h1>${current.title(state.place)}</h1>${failure ? nothing : html`<p>${t('loading')}</p>`}`;
  return current.show(shown, data, page);
}

/** Shows the login; without a session no figure stays on the screen. */
async function asked(refusal) {
  Object.assign(state, { refusal, me: null, data: null, seen_ms: null, failure: null });
  show();
  state.logins ??= await ways();
  show();
}

function logged_in(me) {
  Object.assign(state, { refusal: null, login_failed: null, me });
  look();
}

async function log_out() {
  try {
    await call('DELETE', '/v1/session');
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return page.say(refused(error), 'bad');
  }
  state.looks += 1;
  asked(new Refusal({ code: 'DQ-G121', reason: 'left' }));
}

/** The code of a one-time link becomes a session, and the way back from the provider leads to where the reader was: neither stays in the address bar. */
async function begin() {
  const { once, ...rest } = here();
  const back = returned(rest);
  if (!once && !back) return;
  const place = back?.place ?? rest;
  rename(place);
  Object.assign(state, { place, login_failed: back?.failure ?? null });
  if (!once) return;
  try {
    state.me = await post('/v1/session', { once });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    state.login_failed = error;
  }
}

/** Looks once; of two looks the later counts. */
async function look() {
  clearTimeout(state.timer);
  const at = ++state.looks;
  const { place } = state;
  const began_ms = performance.now();
  try {
    const [me, data] = await Promise.all([get('/v1/me'), screen(place).load(place, state.data)]);
    if (at !== state.looks) return;
    Object.assign(state, { me, data, shown: place, failure: null, refusal: null, seen_ms: now() });
  } catch (error) {
    if (at !== state.looks) return;
    if (!(error instanceof Refusal)) throw error;
    if (asks(error)) return asked(state.login_failed ?? (error.code === FIRST.code ? FIRST : error));
    state.failure = error;
  }
  show();
  const every_ms = (state.data && screen(place).every_ms?.(state.data)) ?? EVERY_MS;
  const pause_ms = Math.max(every_ms, PAUSES * (performance.now() - began_ms));
  state.timer = setTimeout(() => (document.hidden ? null : look()), pause_ms);
}

function arrive() {
  const is_same = screen(here()) === screen(state.place) && SUBJECT.every((name) => here()[name] === state.place[name]);
  Object.assign(state, { place: here(), failure: null, said: null });
  shrink();
  if (!is_same) Object.assign(state, { data: null, seen_ms: null });
  show();
  if (!is_same) document.getElementById('main').focus({ preventScroll: true });
  if (!state.refusal) look();
}

addEventListener('popstate', arrive);
addEventListener('choose', show);
addEventListener('click', follow);
document.addEventListener('visibilitychange', () => document.hidden || state.refusal || look());
await begin();
arrive();
