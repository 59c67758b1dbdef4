// The frame around every screen: navigation, who is asking, language, and what happened last.

import { here, to } from './url.js';
import { html, nothing } from './vendor/lit-html.js';
import { distance, language, refused, t, zone } from './words.js';

/** The screens that the reader may see: a tenant sees nothing of the whole deployment. */
function screens(me) {
  const whole = me && me.tenant === null ? ['fleet', 'destinations'] : [];
  return ['find', ...whole, 'operations', ...(me?.rights.includes('audit') ? ['actions'] : [])];
}

/** The whole page: one screen in its frame. */
export function frame({ screen, inner, me, failure, seen_ms, said, dismiss, log_out }) {
  const other = language() === 'zh' ? 'en' : 'zh';
  const current = (name) => (screen === name ? 'page' : nothing);
  return html`
    <a class="skip" href="#main">${t('skip')}</a>
    <header class="top">
      <a class="brand" href=${to({})}>${'delayq'}</a>
      ${me ? html`<span class="faint">${t('namespace', { name: me.namespace })}</span>` : nothing}
      <nav aria-label=${t('navigation')}>
        <a href=${to({})} aria-current=${current('overview')}>${t('overview')}</a>
        ${screens(me).map((one) => html`<a href=${to({ view: one })} aria-current=${current(one)}>${t(one)}</a>`)}
      </nav>
      <div class="who">
        ${me && !me.rights.includes('act') ? html`<span class="badge">${t('read_only')}</span>` : nothing}
        ${me?.name ? html`<span class="faint">${t(me.person ? 'logged_in_person' : 'logged_in_as', { name: me.name })}</span>` : nothing}
        <a href=${to({ ...here(), lang: other })} hreflang=${other} lang=${other}>${t('other_language')}</a>
        ${me?.session ? html`<button class="plain" @click=${log_out}>${t('log_out')}</button>` : nothing}
      </div>
    </header>
    <div class="notes" role="status">
      ${said ? html`<p class="note ${said.kind}"><span>${said.text}</span><button class="plain" @click=${dismiss}>${t('dismiss')}</button></p>` : nothing}
      ${failure ? html`<p class="note bad"><span>${refused(failure)} ${seen_ms ? html`<span aria-live="off">${t('last_seen', { when: distance(seen_ms) })}</span>` : nothing}</span></p>` : nothing}
    </div>
    <main id="main" tabindex="-1" class=${failure && seen_ms ? 'stale' : ''}>${inner}</main>
    <footer class="faint">${t('times_in', { zone: zone() })}</footer>`;
}
