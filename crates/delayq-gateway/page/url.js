// The state of the page is its URL: what is shown, of which topic, from when to when, in which language.

let read = {};

/** The place that the address bar names: its parameters by name. A list asks for each of its links. */
export function here() {
  const { search } = location;
  if (read.search !== search) read = { search, place: Object.fromEntries(new URLSearchParams(search)) };
  return read.place;
}

/** The address of a place; the language stays. */
export function to(place) {
  const { lang } = here();
  const all = Object.entries({ ...place, lang: 'lang' in place ? place.lang : lang });
  const query = new URLSearchParams(all.filter(([, value]) => value !== undefined && value !== null && value !== ''));
  return query.size > 0 ? `/?${query}` : '/';
}

/** Goes to a place, as a link would. */
export function go(place) {
  history.pushState(null, '', to(place));
  dispatchEvent(new PopStateEvent('popstate'));
}

/** Writes another address for the place that is shown already. */
export const rename = (place) => history.replaceState(null, '', to(place));

/** Follows links inside the page without loading it again. */
export function follow(event) {
  const link = event.target.closest?.('a[href]');
  const is_plain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !is_plain || link.origin !== location.origin || link.pathname !== '/' || link.target || event.defaultPrevented) return;
  if (link.hash) return;
  event.preventDefault();
  history.pushState(null, '', link.href);
  dispatchEvent(new PopStateEvent('popstate'));
  scrollTo(0, 0);
}
