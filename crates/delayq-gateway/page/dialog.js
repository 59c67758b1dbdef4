// A dialog that says what will happen, the call, and its answer in words.

import { Refusal } from './api.js';
import { go } from './url.js';
import { html, nothing, render } from './vendor/lit-html.js';
import { refused, t } from './words.js';

/** From this number on, the reader types it. */
const MANY = 1_000;

/**
 * Asks before it runs. The page then says what `run` answers, and shows the place that the answer names.
 * `given` is the dialog's title, text, fields and button, or a function that answers them: `ask` returns what draws them again.
 */
export function ask(page, given) {
  const parts = typeof given === 'function' ? given : () => given;
  const dialog = document.createElement('dialog');
  const close = () => dialog.close();
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    draw(true);
    const { text, kind, place } = await answered(() => parts().run(form));
    close();
    if (place) go(place);
    page.say(text, kind);
    page.look();
  };
  const draw = (busy = false) => render(drawn({ ...parts(), busy, submit, close }), dialog);
  dialog.setAttribute('aria-labelledby', 'asked');
  dialog.addEventListener('close', () => dialog.remove());
  draw();
  document.body.append(dialog);
  dialog.showModal();
  return draw;
}

const drawn = ({ title, text, fields, button, danger, waits, busy, submit, close }) => html`
  <form @submit=${submit}>
    <h2 id="asked">${title}</h2>
    <p>${text}</p>
    ${fields ?? nothing}
    <p class="buttons">
      <button class=${danger ? 'danger' : 'main'} ?disabled=${busy || waits}>${button}</button>
      <button type="button" @click=${close}>${t('leave')}</button>
    </p>
  </form>`;

/** What a call did, or why it did not. */
export async function answered(run) {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const is_unknown = error.problem.fate === 'unknown' || error.code === 'away';
    return { kind: 'bad', text: is_unknown ? html`${refused(error)} ${t('fate_unknown')}` : refused(error) };
  }
}

/** The field where the reader types the number of messages, unless they are few and counted. */
export const typed = (n, is_exact = true) =>
  n <= MANY && is_exact
    ? nothing
    : html`<label class="field">${t('type_number', { n: String(n) })}
        <input name="typed" required pattern=${String(n)} inputmode="numeric" autocomplete="off"></label>`;
