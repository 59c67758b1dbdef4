// Asking for the token, once: the gateway answers with a session.

import { Refusal, post } from './api.js';
import { html, nothing } from './vendor/lit-html.js';
import { has_text, refused, t } from './words.js';

/** The screen that asks for a token. `failure` is why; `done` gets who the reader is. */
export function login({ failure, done, show }) {
  const enter = async (event) => {
    event.preventDefault();
    const form = event.target;
    const { token } = Object.fromEntries(new FormData(form));
    try {
      done(await post('/v1/session', { token }));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      form.reset();
      show(error);
    }
  };
  return html`
    <h1>${t('log_in')}</h1>
    ${failure ? html`<p class="note bad" role="alert">${reason(failure)}</p>` : nothing}
    <form class="find" @submit=${enter}>
      <label>${t('token')} <input name="token" type="password" required autocomplete="current-password"></label>
      <button class="main">${t('log_in')}</button>
    </form>
    <p class="faint">${t('log_in_help')}</p>`;
}

/** True for a refusal that asks for a login. */
export const asks = ({ code }) => code === 'DQ-G102' || code === 'DQ-G121';

function reason({ problem, code }) {
  const key = code === 'DQ-G121' ? `session_${problem.reason}` : `login_${code.replace('DQ-', '')}`;
  return has_text(key) ? t(key) : refused({ problem });
}
