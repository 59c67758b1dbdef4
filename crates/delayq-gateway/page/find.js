// Finding messages: an id in every topic, the pending messages of a group, or by walking over a topic.

import { get, path, post, query } from './api.js';
import { group_buttons } from './group.js';
import { list } from './rows.js';
import { bar, selection } from './selection.js';
import { field, pager } from './table.js';
import { go } from './url.js';
import * as walk from './walk.js';
import { html, nothing } from './vendor/lit-html.js';
import { count, t } from './words.js';

export const name = 'find';
export const title = () => t('find');

/** Messages of a page, and the most topics that are asked for an id. */
const LIMIT = 50;
const MAX_TOPICS = 500;

/** A walk is not repeated by itself. */
const NOT_SOON_MS = 3_600_000;
export const every_ms = ({ by }) => (by === 'walk' ? NOT_SOON_MS : null);

export async function load(place) {
  const { id, group, after, topic } = place;
  if (walk.is_walk(place)) return walk.load(place);
  if (id) return { by: 'id', ...(await by_id(id, group)) };
  if (!group) return { by: null };
  return { by: 'group', list: await get(path`/v1/groups/${group}/messages` + query({ topic, after, limit: LIMIT })) };
}

/** Asks every topic for an id. */
async function by_id(id, group) {
  const { topics, next } = await get(`/v1/topics?limit=${MAX_TOPICS}`);
  if (topics.length === 0) return { found: [], asked: 0, more: false };
  const answers = await post('/v1/get', topics.map(({ topic }) => ({ topic, id, group: group ?? null })));
  return { found: answers.filter(({ code }) => code === undefined), asked: topics.length, more: next !== null };
}

/** The results follow the form that asked. */
export function show(place, data, page) {
  const [asked, other] = data.by === 'walk' ? [walk.form, form] : [form, walk.form];
  return html`<h1>${t('find')}</h1>${asked(place)}${results(place, data, page)}${other(place)}`;
}

function form({ id, group }) {
  const find = (event) => {
    event.preventDefault();
    const { id, group } = Object.fromEntries(new FormData(event.target));
    go({ view: 'find', id: id.trim(), group: group.trim() });
  };
  return html`
    <h2>${t('by_id')}</h2>
    <form class="find" @submit=${find}>
      ${field(t('id'), 'id', id, false)} ${field(t('group'), 'group', group, false)}
      <button>${t('find')}</button>
    </form>
    <p class="faint">${t('find_help')}</p>`;
}

function results(place, data, page) {
  if (data.by === 'id') {
    const { found, asked, more } = data;
    return html`
      <h2>${t('results')}</h2>
      <p>${t(found.length > 0 ? 'found_in' : 'found_nowhere', { n: count(found.length), asked: count(asked) })} ${more ? t('more_topics', { n: MAX_TOPICS }) : nothing}</p>
      ${found.length > 0 ? list(found, { caption: t('results'), with_topic: true, with_state: true }) : nothing}`;
  }
  if (data.by === 'walk') return walk.results(place, data, page);
  if (data.by !== 'group') return nothing;
  const caption = t('group_of', { group: place.group });
  const { messages, next } = data.list;
  const is_long = next !== null || Boolean(place.after);
  return html`
    <h2>${caption}</h2>
    ${messages.length > 0 ? members(place, messages, is_long, page) : html`<p>${t('group_empty')}</p>`}
    ${pager(place, next)}`;
}

function members({ group, topic }, messages, is_long, page) {
  const chosen = selection(page, { group, topics: topic ? [topic] : [], state: 'pending' });
  const caption = t('group_of', { group });
  return html`
    ${group_buttons({ group, topic }, page, is_long)}
    ${chosen ? bar(chosen, messages, is_long) : nothing}
    ${list(messages, { caption, with_topic: true, with_state: true, selection: chosen })}`;
}
