// Why a message is in its state, in sentences.

import { now } from './api.js';
import { LATE_MS } from './overview.js';
import { distance, exact, span, t } from './words.js';

/** The sentences about a message of a topic with these numbers. */
export function why(message, numbers) {
  const { state, reason } = message;
  const said = [main(message)];
  if (state === 'ready' && numbers.paused > 0) said.push(t('why_paused'));
  if (state === 'ready' && numbers.paused === 0 && numbers.rate !== null) said.push(t('why_rate', { rate: numbers.rate }));
  if (state !== 'dead' && reason) said.push(t('why_last_failed', { reason }));
  if (message.held_by_group) said.push(t(message.group_paused ? 'why_group_paused' : message.group_blocked ? 'why_group_blocked' : 'why_held'));
  if (message.blocks_group) said.push(t('why_blocks'));
  if (message.cancelled_while_leased) said.push(t('why_doomed'));
  if (message.has_successor) said.push(t('why_has_successor'));
  return said;
}

function main(message) {
  const { state, due_ms, since_ms, lease_ends_ms, attempt, max_attempts, reason } = message;
  const away_ms = due_ms - now();
  switch (state) {
    case 'delayed':
      if (away_ms < -LATE_MS) return t('why_overdue', { span: span(-away_ms) });
      return t(attempt > 0 ? 'why_retry' : 'why_delayed', { when: distance(due_ms), at: exact(due_ms), n: attempt, next: attempt + 1 });
    case 'ready':
      return t('why_ready', { span: span(Math.max(0, now() - since_ms)) });
    case 'leased':
      return t(lease_ends_ms < now() ? 'why_lease_over' : 'why_leased', { when: distance(lease_ends_ms), n: attempt });
    case 'dead':
      return t(!reason ? 'why_dead_silently' : attempt > 0 ? 'why_dead' : 'why_buried', { reason, n: attempt, max: max_attempts, when: distance(since_ms) });
    default:
      return t(`why_${state}`, { when: distance(since_ms), at: exact(since_ms) });
  }
}
