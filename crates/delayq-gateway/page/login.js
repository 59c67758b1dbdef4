// Logging in: through the identity provider, or by a token. The gateway answers with a session.

import { Refusal, get, post } from './api.js';
import { html, nothing } from './vendor/lit-html.js';
import { has_text, refused, t } from './words.js';

/** Where the reader was before the provider's page, in this tab alone. */
const BACK = 'back';
/** The refusals of the provider's way, whose reasons have a sentence each. */
const OF_PROVIDER = ['DQ-G130', 'DQ-G131', 'DQ-G132', 'DQ-G133'];
/** The gateway's code and id are shown only if they are of these forms: the address of the page may come from anybody. */
const CODE = /^DQ-G\d{3}$/;
const ID = /^[0-9a-f]{8}$/;

/** A reader without a session, who has done nothing wrong. */
export const FIRST = new Refusal({ code: 'DQ-G102' });

/** How a reader may log in. */
export const ways = () => get('/v1/session').catch(() => ({ token: true, provider: null }));

/** The screen that asks for a login. `failure` is why; `done` gets who the reader is. */
export const login = ({ failure, logins, done, show }) => html`
  <h1>${t('log_in')}</h1>
  ${failure && failure !== FIRST ? html`<p class="note bad" role="alert"><span>${reason(failure)}</span></p>` : nothing}
  ${logins?.provider ? of_provider(logins.provider, show) : nothing}
  ${logins ? of_token(logins, done, show) : nothing}`;

const of_provider = (issuer, show) => html`
  <p><button class="main" @click=${() => tried(leave, show)}>${t('log_in_with', { provider: host(issuer) })}</button></p>`;

function of_token({ provider }, done, show) {
  const enter = (event) => {
    event.preventDefault();
    const form = event.target;
    const { token } = Object.fromEntries(new FormData(form));
    return tried(async () => done(await post('/v1/session', { token })), (error) => {
      form.reset();
      show(error);
    });
  };
  const form = html`
    <form class="find" @submit=${enter}>
      <label>${t('token')} <input name="token" type="password" required autocomplete="current-password"></label>
      <button class=${provider ? '' : 'main'}>${t('log_in')}</button>
    </form>
    <p class="faint">${t('log_in_help')}</p>`;
  return provider ? html`<details><summary>${t('log_in_by_token')}</summary>${form}</details>` : form;
}

async function tried(run, show) {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    show(error);
  }
}

/** Goes to the provider's page. */
async function leave() {
  const { url } = await post('/v1/session/oidc');
  sessionStorage.setItem(BACK, location.search);
  location.assign(url);
}

/** The place before the provider's page, and why there is no session. `null`: the reader does not come from there. */
export function returned({ login: id, refused: code, reason: word }) {
  if (id === undefined) return null;
  const before = sessionStorage.getItem(BACK) ?? '';
  sessionStorage.removeItem(BACK);
  const place = Object.fromEntries(new URLSearchParams(before));
  const known = CODE.test(code ?? '');
  return { place, failure: known ? new Refusal({ code, reason: word, login: ID.test(id) ? id : null }) : null };
}

/** True for a refusal that asks for a login. */
export const asks = ({ code }) => code === 'DQ-G102' || code === 'DQ-G121';

const host = (issuer) => new URL(issuer).host;

function reason({ problem, code }) {
  if (OF_PROVIDER.includes(code)) return of_login(problem);
  const key = code === 'DQ-G121' ? `session_${problem.reason}` : `login_${code.replace('DQ-', '')}`;
  return has_text(key) ? t(key) : refused({ problem });
}

function of_login({ code, reason: word, login: id, detail }) {
  const key = `refused_${word}`;
  const text = has_text(key) ? t(key) : t('refused_else');
  const more = id ? t('login_in_log', { id }) : (detail ?? '');
  return html`${text} <span class="faint">${code}${more ? html`: ${more}` : nothing}</span>`;
}
