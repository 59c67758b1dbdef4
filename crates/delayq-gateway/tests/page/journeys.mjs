// Walks through the page in a real Chromium, as a reader would: `make test-page`.
//
// GATEWAY, OTHER: two gateways of one deployment. PEOPLE: a third one, whose readers log in at an identity provider. TOKENS: their file, which has `secret` (may change), `seen` (may read) and
// `tenant` (may change what is the tenant's).
// TOOLS: the folder with node_modules. SHOTS: a folder for screenshots, or unset. ONLY: parts of the names of journeys, with | between
// them, or unset for all. DELAYQ_TEST_JOURNEYS=short: those of `make test` alone. Lines on standard output ask the test to do what
// only it can (`scene.rs`); a line on standard input answers.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { GATEWAY, OTHER, PEOPLE, TOKENS, TOOLS, CHROMIUM, SHOTS, ONLY, DELAYQ_TEST_JOURNEYS } = process.env;
/** What every change of the code must leave possible, in less than a minute. */
const SHORT = ['a wrong token', 'from the overview', 'the horizon opens', 'a message is moved', 'an operation is aborted', 'a token that may read', 'a removed token', 'without Redis the last figures', 'another gateway'];
const PARTS = ONLY?.split('|') ?? (DELAYQ_TEST_JOURNEYS === 'short' ? SHORT : ['']);
const tools = createRequire(`${TOOLS}/package.json`);
const { chromium } = tools('playwright-core');
const axe = readFileSync(tools.resolve('axe-core/axe.min.js'), 'utf8');

const PATIENCE_MS = 20_000;
/** No task of the browser may take longer: a reader notices what takes a tenth of a second. */
const MAX_TASK_MS = 100;
/** Runs of a measurement on a busy machine, and how much slower than a quiet one that may be. */
const TRIES = 3;
const NOISE = 5;
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** Every screen is looked at in both themes, wide and narrow. */
const LOOKS = [
  { theme: 'light', width: 1280, height: 800 },
  { theme: 'dark', width: 360, height: 740 },
  { theme: 'dark', width: 1280, height: 800 },
  { theme: 'light', width: 360, height: 740 },
];
const WIDE = LOOKS[0];

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the test for something that only it can do. */
async function asked(line) {
  console.log(line);
  await answers.next();
}

// The API, as another client uses it.

async function api(method, path, body) {
  const headers = { authorization: 'Bearer secret', 'content-type': 'application/json' };
  const answer = await fetch(GATEWAY + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.status === 204 ? null : answer.json();
}

const put = (topic, id, message) => api('PUT', `/v1/topics/${topic}/messages/${id}`, message);

/** Many messages of a topic, each in a group of a hundred. */
async function put_many(topic, n) {
  const headers = { authorization: 'Bearer secret', 'content-type': 'application/x-ndjson' };
  const line = (i) => JSON.stringify({ topic, id: `${topic}-${i}`, group: `group-${Math.floor(i / 100)}`, due: '+30h', headers: { customer: String(i % 7) } });
  const answer = await fetch(`${GATEWAY}/v1/messages`, { method: 'POST', headers, body: Array.from({ length: n }, (_, i) => line(i)).join('\n') });
  const lines = (await answer.text()).trim().split('\n');
  assert.equal(JSON.parse(lines.at(-1)).outcomes.stored, n);
}

/** Messages in every state, and due from now to years ahead. */
async function seed() {
  await put_many('letters', 1_200);
  await api('PATCH', '/v1/topics/orders/policy', { history: '100', history_for: '1d' });
  await api('POST', '/v1/topics/mails/pause');
  const dues = ['+20s', '+45s', '+5m', '+7m', '+8m', '+30m', '+40m', '+2h', '+3h', '+5h', '+9h', '+20h', '+72h', '+120h', '+400h', '+2000h', '+20000h'];
  let n = 0;
  for (const [at, due] of dues.entries()) {
    for (let i = 0; i < 3 + ((at * 7) % 11); i += 1) await put('orders', `order-${(n += 1)}`, { due, payload: { order: n, total: '19.90' } });
  }
  await put('orders', 'order-4711?group=user-5', { due: '+30m', group: 'user-5', payload: { order: 4711, items: ['tea', '茶'] }, headers: { trace: '4b1f', 'content-type': 'application/json' } });
  await put('orders', 'reminder-1?group=user-5', { due: '+2h', group: 'user-5', payload: 'text' });
  for (let i = 1; i <= 9; i += 1) await put('mails', `mail-${i}`, { due: 'now', payload: `Dear ${i}` });
  const reasons = ['TimeoutError: no answer after 30 s', 'KeyError: customer 17', 'TimeoutError: no answer after 31 s', 'TimeoutError: no answer after 30 s\n  at send (mail.py:7)'];
  for (let i = 0; i < 8; i += 1) await put('payments', `pay-${i}`, { due: 'now', payload: { amount: i } });
  for (let i = 0; i < 8; i += 1) {
    const { messages } = await api('POST', '/v1/reserve', { topics: ['payments'], wait: '10s', lease: '1h' });
    const reason = reasons[i % reasons.length];
    if (i < 6) await api('POST', '/v1/settle', [{ receipt: messages[0].receipt, do: 'bury', reason }]);
  }
  await put('payments', 'pay-retry', { due: 'now', payload: 'x' });
  const { messages } = await api('POST', '/v1/reserve', { topics: ['payments'], wait: '10s' });
  await api('POST', '/v1/settle', [{ receipt: messages[0].receipt, do: 'release', delay: '1h', reason: 'HTTP 503 of the bank' }]);
}

// The browser.

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
});
const faults = [];

/** A new reader, with an empty profile. */
async function reader({ theme, width, height } = WIDE, locale = 'en-GB') {
  const context = await browser.newContext({ colorScheme: theme, viewport: { width, height }, locale, timezoneId: 'Europe/Berlin' });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('pageerror', (error) => faults.push(`error in the page: ${error.stack}`));
  page.on('console', (message) => {
    // Chromium reports refused requests too; the page shows those.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text());
  });
  page.on('request', (request) => {
    const { hostname } = new URL(request.url());
    if (hostname !== '127.0.0.1' && !request.url().startsWith('data:')) faults.push(`a request to ${request.url()}`);
  });
  return page;
}

async function log_in(page, token = 'secret', place = '/') {
  await page.goto(GATEWAY + place);
  await page.getByLabel(/^(Token|令牌)/).fill(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /^(Log out|退出登录)$/ }).waitFor();
}

async function wait_for(what, holds, patience_ms = PATIENCE_MS) {
  for (const end = Date.now() + patience_ms; !(await holds()); await new Promise((done) => setTimeout(done, 200))) assert.ok(Date.now() < end, what);
}

const sees = (page, text) => page.getByText(text).first().waitFor();

/** Fails on a violation that axe finds, and on a page that is wider than its window. */
async function sound(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((values) => window.axe.run(document, { runOnly: { type: 'tag', values } }), RULES);
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`);
  assert.deepEqual(found, [], what);
  const [scroll, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(scroll <= inner, `${what} is ${scroll} wide in a window of ${inner}`);
}

/** The group of a message of the list. */
const group_of = (page, id) => page.locator('tr', { has: page.getByText(id, { exact: true }) }).locator('td a').first().textContent();

async function shot(page, name) {
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

/** A bound that a busy machine may have exceeded, as in `delayq_tests::timing`. */
function inconclusive(why) {
  assert.notEqual(process.env.DELAYQ_TEST_TIMING, 'strict', why);
  console.log(`INCONCLUSIVE every_journey_of_a_reader_ends_well: this machine was too busy: ${why}`);
}

/** Reads all dead letters of a topic, and measures the tasks of the browser meanwhile. */
async function longest_task_of_all_pages() {
  const page = await reader();
  await page.addInitScript(() => {
    window.longest = 0;
    new PerformanceObserver((tasks) => (window.longest = Math.max(window.longest, ...tasks.getEntries().map(({ duration }) => duration)))).observe({ type: 'longtask' });
  });
  await log_in(page, 'secret', '/?topic=dying&state=dead');
  const seen = new Set();
  for (let first = null; ; ) {
    await page.waitForFunction((before) => {
      const ids = document.querySelectorAll('tbody .id');
      return ids.length === 500 && ids[0].textContent !== before;
    }, first);
    const ids = await page.locator('tbody .id').allTextContents();
    for (const one of ids) seen.add(one);
    if (!(await page.getByRole('link', { name: 'Next page' }).count())) break;
    [first] = ids;
    await page.getByRole('link', { name: 'Next page' }).click();
  }
  assert.equal(seen.size, 10_000);
  const longest = await page.evaluate(() => window.longest);
  await page.context().close();
  return longest;
}

const journeys = {
  async 'a wrong token is refused, the right one logs in, and logging out leaves nothing on the screen'() {
    const page = await reader();
    await page.goto(`${GATEWAY}/?topic=orders`);
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await sees(page, 'Unknown token');
    await sound(page, 'the login');
    await page.getByLabel('Token').fill('secret');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'orders', exact: true }).waitFor();
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
    assert.equal(await page.evaluate(() => document.cookie + JSON.stringify(localStorage)), '{}');
    await page.getByRole('button', { name: 'Log out' }).click();
    await sees(page, 'You are logged out.');
    assert.equal(await page.getByText('order-').count(), 0);
    assert.deepEqual(await page.context().cookies(), []);
  },

  async 'from the overview to a message by clicks, and back'() {
    const page = await reader();
    await log_in(page);
    await page.getByRole('columnheader', { name: 'Dead' }).getByRole('link').click();
    await page.waitForFunction(() => document.querySelector('tbody th').textContent.includes('payments'));
    await page.getByRole('columnheader', { name: 'Delayed' }).getByRole('link').click();
    await page.waitForFunction(() => document.querySelector('tbody th').textContent.includes('letters'));
    assert.match(page.url(), /sort=delayed/);
    await page.getByRole('link', { name: 'orders' }).first().click();
    await page.getByRole('link', { name: 'order-4711' }).first().click();
    await sees(page, 'It waits for its due time');
    await page.getByRole('button', { name: 'Show the payload' }).click();
    await sees(page, '茶');
    await page.goBack();
    await page.getByRole('heading', { name: 'orders', exact: true }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
  },

  async 'the horizon opens a range by click, by brush and by keys, and its list follows'() {
    const page = await reader();
    await log_in(page, 'secret', '/?topic=orders');
    const chart = page.getByRole('slider');
    const { x, y, width, height } = await chart.boundingBox();
    await page.mouse.click(x + width * (6.5 / 12), y + height / 2);
    await page.waitForURL(/from=\d+&to=\d+/);
    await sees(page, 'in this range');
    const ids = () => page.locator('tbody .id').allTextContents();
    await page.waitForFunction(() => document.querySelectorAll('tbody .id').length > 0);
    const [wide, range] = [await ids(), new URL(page.url()).searchParams];
    await page.getByRole('slider').waitFor();
    const box = await page.getByRole('slider').boundingBox();
    await page.mouse.move(box.x + 1, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2, box.y + 30, { steps: 5 });
    await page.mouse.up();
    await page.waitForFunction((from) => new URL(location).searchParams.get('to') !== from, range.get('to'));
    await page.waitForFunction((n) => document.querySelectorAll('tbody .id').length < n, wide.length);
    await page.getByRole('link', { name: 'All times' }).click();
    await page.waitForURL((url) => !url.searchParams.has('from') && !url.searchParams.has('to'));
    await sees(page, 'messages wait for their due time');
    await page.getByRole('slider').focus();
    for (let i = 0; i < 6; i += 1) await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Shift+ArrowRight');
    await page.keyboard.press('Enter');
    await page.waitForURL(/from=\d+&to=\d+/);
    // Until the range is read, the screen shows the whole horizon.
    await sees(page, 'in this range');
    await page.getByText('The same as a table').click();
    await page.locator('details table a').first().click();
    await page.waitForURL(/from=\d+&to=\d+/);
  },

  async 'a group has a horizon and a list of its own, and the address keeps it'() {
    const page = await reader();
    await log_in(page, 'secret', '/?topic=orders');
    await page.getByLabel('Only of the group').fill('user-5');
    await page.keyboard.press('Enter');
    await page.waitForURL(/group=user-5/);
    await sees(page, '2 messages wait for their due time.');
    assert.deepEqual(await page.locator('tbody .id').allTextContents(), ['order-4711', 'reminder-1']);
    await sound(page, 'the messages of a group');
    await page.reload();
    await sees(page, '2 messages wait for their due time.');
    await page.getByRole('link', { name: /^Ready / }).click();
    await sees(page, 'No message waits for a worker.');
    assert.match(page.url(), /group=user-5/);
    await page.getByRole('link', { name: 'All groups' }).click();
    await page.waitForURL((url) => !url.searchParams.has('group'));
  },

  async 'a message is moved, and not where somebody else moved it meanwhile'() {
    const page = await reader();
    await put('orders', 'moved', { due: '+50h', payload: 'x' });
    await log_in(page, 'secret', '/?topic=orders&id=moved');
    await page.getByRole('button', { name: 'Reschedule' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'In 1 day' }).click();
    await sound(page, 'the dialog');
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click();
    await sees(page, 'Moved: now due at');
    await page.getByRole('button', { name: 'Reschedule' }).click();
    await api('POST', '/v1/topics/orders/messages/moved/reschedule', { due: '+90h' });
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click();
    await sees(page, 'Somebody else moved the message meanwhile. Nothing was changed.');
    await page.getByRole('button', { name: 'Cancel the message' }).click();
    await api('POST', '/v1/topics/orders/messages/moved/reschedule', { due: '+91h' });
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the message' }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await sees(page, 'Somebody else moved the message meanwhile. Nothing was changed.');
    assert.equal((await api('GET', '/v1/topics/orders/messages/moved')).state, 'delayed', 'the tag was stale');
    await page.getByRole('button', { name: 'Cancel the message' }).click();
    await page.getByRole('button', { name: 'Leave as it is' }).click();
    assert.equal((await api('GET', '/v1/topics/orders/messages/moved')).state, 'delayed');
    await page.getByRole('button', { name: 'Make it due now' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Make it due now' }).click();
    await sees(page, 'waited for a worker');
    await page.getByRole('button', { name: 'Cancel the message' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the message' }).click();
    await sees(page, 'It was cancelled');
  },

  async 'a message and a selection are made dead letters, and the reason is kept'() {
    const page = await reader();
    for (const id of ['blocked-1', 'blocked-2', 'blocked-3']) await put('cards', id, { due: '+5h', payload: 'x' });
    await log_in(page, 'secret', '/?topic=cards&id=blocked-1');
    await page.getByRole('button', { name: 'Make it a dead letter' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Make it a dead letter' }).click();
    assert.equal((await api('GET', '/v1/topics/cards/messages/blocked-1')).state, 'delayed', 'without a reason');
    await dialog.getByLabel('Why').fill('the card is blocked');
    await sound(page, 'the dialog of a burial');
    await page.keyboard.press('Enter');
    await sees(page, 'It is a dead letter now.');
    await sees(page, /It was made a dead letter .*, before any attempt: the card is blocked/);
    await page.getByRole('link', { name: 'Topic cards' }).click();
    await page.getByRole('checkbox', { name: 'All of this page' }).check();
    await page.getByRole('button', { name: 'Make 2 dead letters' }).click();
    await api('DELETE', '/v1/topics/cards/messages/blocked-3');
    await dialog.getByLabel('Why').fill('all cards are blocked');
    await page.keyboard.press('Enter');
    await sees(page, 'Done: 1. Not done: 1.');
    const { messages } = await api('GET', '/v1/topics/cards/messages?state=dead');
    assert.deepEqual(messages.map(({ reason }) => reason).sort(), ['all cards are blocked', 'the card is blocked']);
    await page.getByRole('link', { name: 'Actions' }).click();
    await page.getByRole('row', { name: /shop made dead letters/ }).first().waitFor();
  },

  async 'dead letters are grouped by reason and replayed together'() {
    const page = await reader();
    await log_in(page, 'secret', '/?topic=payments&state=dead');
    await page.getByRole('link', { name: 'TimeoutError: no answer after # s' }).click();
    await sees(page, 'Only: TimeoutError');
    assert.equal(await page.locator('tbody .id').count(), 4);
    await page.getByRole('row', { name: /KeyError/ }).getByRole('button', { name: 'Replay 2' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replay 2' }).click();
    await sees(page, 'Done: 2. Not done: 0.');
    assert.match(page.url(), /reason=Timeout/);
    await page.waitForFunction(() => !document.body.textContent.includes('KeyError'));
  },

  async 'ten thousand dead letters are read page by page, and no task keeps the reader waiting'() {
    await put_many('dying', 10_000);
    const { id } = await api('POST', '/v1/operations', { action: 'bury', filter: { topics: ['dying'] }, reason: 'KeyError: customer 17' });
    await wait_for('the burials', async () => (await api('GET', `/v1/operations/${id}`)).ended_ms, 3 * PATIENCE_MS);
    const longest = [];
    while (longest.length < TRIES && !(Math.min(...longest) <= MAX_TASK_MS)) longest.push(await longest_task_of_all_pages());
    console.log(`the longest task of 20 pages with 500 rows: ${longest.map(Math.round).join(', ')} ms`);
    assert.ok(Math.min(...longest) < NOISE * MAX_TASK_MS, `${longest} ms`);
    if (Math.min(...longest) > MAX_TASK_MS) inconclusive(`a task of the page took ${longest} ms, at most ${MAX_TASK_MS} ms`);
  },

  async 'an id is found in every topic, and a group has its list'() {
    const page = await reader();
    await log_in(page, 'secret', '/?view=find');
    await page.getByLabel('Id').fill('mail-3');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'mail-3' }).click();
    await sees(page, 'Its topic is paused');
    await page.getByRole('link', { name: 'Find' }).click();
    await page.getByLabel('Group').fill('user-5');
    await page.getByRole('button', { name: 'Find' }).click();
    await page.getByRole('link', { name: 'reminder-1' }).waitFor();
    await page.getByLabel('Id').fill('nobody');
    await page.getByLabel('Group').fill('');
    await page.keyboard.press('Enter');
    await sees(page, 'Nothing found');
  },

  async 'chosen messages are moved and cancelled together, and the choice survives another page'() {
    const page = await reader();
    await log_in(page, 'secret', '/?topic=letters');
    const first = await page.locator('tbody .id').first().textContent();
    await page.getByRole('checkbox', { name: `Choose ${first}`, exact: true }).focus();
    await page.keyboard.press('Space');
    await sees(page, '1 chosen');
    await page.getByRole('link', { name: 'Next page' }).click();
    await page.waitForURL(/after=/);
    await page.waitForFunction((id) => ![...document.querySelectorAll('tbody .id')].some((link) => link.textContent === id), first);
    await page.getByRole('checkbox', { name: 'All of this page' }).check();
    await sees(page, '51 chosen');
    await sound(page, 'chosen messages');
    await page.getByRole('button', { name: 'Reschedule 51' }).click();
    await page.getByRole('radio', { name: 'By a span for each' }).check();
    await sound(page, 'the dialog of a choice');
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule 51' }).click();
    await sees(page, 'Done: 51. Not done: 0.');
    assert.match(page.url(), /after=/);
    await sees(page, '0 chosen');
    await page.getByRole('link', { name: 'First page' }).click();
    await page.getByRole('checkbox', { name: 'All of this page' }).check();
    const gone = await page.locator('tbody .id').nth(3).textContent();
    await api('DELETE', `/v1/topics/letters/messages/${gone}?group=${await group_of(page, gone)}`);
    await page.getByRole('button', { name: /^Cancel \d+$/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: /^Cancel \d+$/ }).click();
    await sees(page, 'Done: 5');
  },

  async 'all that match are counted, confirmed by their number, and acted on without what came later'() {
    const page = await reader();
    await put_many('bulk', 1_500);
    await log_in(page, 'secret', '/?topic=bulk');
    await page.getByRole('button', { name: 'Choose all 1,500 that match' }).click();
    await sound(page, 'a choice of all');
    await page.getByRole('button', { name: 'Make all due now' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('delayed messages, topic bulk').waitFor();
    await sound(page, 'the dialog of all');
    await dialog.getByLabel('Why').fill('the shop opens earlier');
    await dialog.getByLabel('Type 1500').fill('15');
    await dialog.getByRole('button', { name: 'Make 1,500 due now' }).click();
    assert.equal((await api('GET', '/v1/topics/bulk')).delayed, 1500, 'the number was wrong');
    await dialog.getByLabel('Type 1500').fill('1500');
    await page.keyboard.press('Enter');
    await page.waitForURL(/view=operations&operation=/);
    await page.getByText('It has looked at every message').waitFor({ timeout: 3 * PATIENCE_MS });
    await sees(page, '1,500 of 1,500 done');
    await sees(page, 'the shop opens earlier');
    await page.getByRole('link', { name: 'All operations' }).click();
    await page.getByRole('link', { name: 'Make due now: delayed messages, topic bulk' }).waitFor();
    await page.getByRole('link', { name: 'Actions' }).click();
    await page.getByRole('row', { name: /shop .*began an operation/ }).first().waitFor();
  },

  async 'an operation is aborted, and says what it did'() {
    const page = await reader();
    await put_many('aborted', 30_000);
    await log_in(page, 'secret', '/?topic=aborted');
    await page.getByRole('button', { name: 'Choose all 30,000 that match' }).click();
    await page.getByRole('button', { name: 'Cancel all that match' }).click();
    await page.getByLabel('Why').fill('a mistake');
    await page.getByLabel('Type 30000').fill('30000');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Abort' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Abort' }).click();
    await page.getByText('It was aborted.').waitFor({ timeout: 3 * PATIENCE_MS });
    await sees(page, 'Aborted by');
    await sound(page, 'an aborted operation');
    const { delayed, cancelled } = await api('GET', '/v1/topics/aborted');
    assert.equal(delayed + cancelled, 30_000);
    assert.ok(delayed > 0 && cancelled > 0, `${delayed} left, ${cancelled} cancelled`);
    await page.getByText(`${cancelled.toLocaleString('en-GB')} of 30,000 done`).waitFor();
  },

  async 'a group is shifted and cancelled as a whole'() {
    const page = await reader();
    await log_in(page, 'secret', '/?view=find&group=group-7');
    await page.getByRole('button', { name: 'Shift the group' }).click();
    await page.getByLabel(/^Span/).fill('2h');
    await page.getByRole('dialog').getByRole('button', { name: 'Shift the group' }).click();
    await sees(page, 'Moved: ');
    await page.getByRole('button', { name: 'Cancel the group' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Type group-7').fill('group-8');
    await dialog.getByRole('button', { name: 'Cancel the group' }).click();
    assert.equal(await dialog.count(), 1, 'the name was wrong');
    await dialog.getByLabel('Type group-7').fill('group-7');
    await dialog.getByRole('button', { name: 'Cancel the group' }).click();
    await sees(page, 'The group has no pending messages');
  },

  async 'messages are found by a header, by walking that says how far it came and goes on'() {
    const page = await reader();
    await put_many('walked', 25_000);
    await log_in(page, 'secret', '/?view=find');
    await page.getByLabel('Topic').fill('walked');
    await page.getByRole('button', { name: 'Look through' }).click();
    assert.ok(!page.url().includes('topic='), 'nothing to look for');
    await page.getByLabel(/^Header/).fill('customer: none');
    await page.getByRole('button', { name: 'Look through' }).click();
    await sees(page, /Found here: 0\. Looked at \d+,\d00 of 25,000 messages\./);
    for (let steps = 0; (await page.getByText('That is all of them.').count()) === 0; steps += 1) {
      assert.ok(steps < 60, 'the walk does not end');
      const before = page.url();
      await page.getByRole('link', { name: 'Go on' }).click();
      await page.waitForURL((url) => url.href !== before);
      await page.waitForFunction((at) => document.querySelector('main a[href*="seen="]')?.href !== at, page.url());
    }
    await sees(page, 'Looked at 25,000 of 25,000 messages. That is all of them.');
    await page.getByLabel(/^Header/).fill('customer: 3');
    await page.getByLabel(/^Header/).press('Enter');
    await page.getByRole('link', { name: /^walked-\d+$/ }).first().waitFor();
    await page.getByRole('button', { name: 'Choose all that match' }).click();
    await page.getByRole('button', { name: 'Cancel all that match' }).click();
    await page.getByRole('dialog').getByText('delayed messages, topic walked, with the header customer: 3').waitFor();
    await page.getByRole('button', { name: 'Leave as it is' }).click();
    await page.getByLabel('Topic').fill('payments');
    await page.getByLabel('State').selectOption('dead');
    await page.getByLabel(/^Header/).fill('');
    await page.getByLabel('Reason contains').fill('TimeoutError');
    await page.keyboard.press('Enter');
    await sees(page, 'Found here: 4.');
  },

  async 'the fleet shows who owns which shard, a drain, and a process that is silent'() {
    const page = await reader();
    await log_in(page, 'secret', '/?view=fleet');
    const row = (name) => page.getByRole('row', { name }).waitFor();
    assert.equal(await page.locator('.grid .tile').count(), 4);
    await row(/ one 2 /);
    await row(/ two 2 /);
    await sees(page, 'Timers that are registered in etcd: 2.');
    await row(/timer-one ready 2 /);
    await row(/127\.0\.0\.1:9 silent/);
    await asked('timers drain two');
    await sees(page, 'Kept without shards: two.');
    await row(/ one 4 0–3 /);
    await row(/timer-two drained/);
    await sound(page, 'a fleet with a drain');
    await asked('timers undrain two');
    await row(/ two 2 /);
    assert.equal(await page.getByText('Kept without shards').count(), 0);
  },

  async 'a destination that fails or rejects rests, says why, and works again'() {
    const page = await reader();
    await asked('webhook hooks.failing 503');
    await asked('webhook hooks.rejecting 400');
    for (let i = 0; i < 6; i += 1) for (const topic of ['hooks.failing', 'hooks.rejecting']) await put(topic, `hook-${i}`, { due: 'now', payload: 'x' });
    await log_in(page, 'secret', '/?view=destinations');
    const row = (name) => page.getByRole('row', { name }).waitFor();
    await row(/hooks\.rejecting shop rests It rejected one message after the other.* Last error: .*400/);
    await row(/hooks\.failing shop rests It failed repeatedly.* Last error: .*503/);
    await sees(page, '127.0.0.1:9 does not answer');
    await row(/spool 0 0 0/);
    await sound(page, 'destinations that rest');
    await shot(page, 'page-destinations-rest');
    await asked('webhook hooks.failing 200');
    await asked('webhook hooks.rejecting 200');
    await row(/hooks\.failing shop works Messages are delivered/);
    await row(/hooks\.rejecting shop works/);
    assert.equal(await page.getByText('Last error').count(), 0);
    await page.goto(`${GATEWAY}/?topic=hooks.rejecting&state=dead`);
    await page.getByRole('row', { name: /400/ }).first().waitFor();
  },

  async 'a tenant sees and changes what is its own, and nothing of the whole deployment'() {
    const page = await reader();
    await log_in(page, 'tenant');
    await sees(page, 'No message was ever put');
    for (const name of ['Fleet', 'Destinations']) assert.equal(await page.getByRole('link', { name }).count(), 0, name);
    await put('acme%2Forders', 'own-1?group=acme%2Fg', { due: '+3h', group: 'acme/g', payload: 'x' });
    await put('acme%2Forders', 'own-2', { due: '+4h', payload: 'x' });
    await page.getByRole('link', { name: 'orders' }).click();
    await page.getByRole('link', { name: 'own-1' }).waitFor();
    assert.equal(await page.getByText('acme/').count(), 0);
    assert.equal(await page.getByText('order-').count(), 0);
    await page.getByRole('checkbox', { name: 'All of this page' }).check();
    await page.getByRole('button', { name: 'Cancel 2' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 2' }).click();
    await sees(page, 'Done: 2. Not done: 0.');
    assert.equal((await api('GET', '/v1/topics/acme%2Forders')).cancelled, 2);
    await page.getByRole('link', { name: 'Actions' }).click();
    await page.getByRole('row', { name: /acme-desk .*cancelled messages/ }).waitFor();
    assert.equal(await page.getByText('shop').count(), 0, 'actions of others');
    await page.goto(`${GATEWAY}/?view=fleet`);
    await sees(page, 'You are limited to a tenant');
    await sound(page, 'a refused screen');
  },

  async 'a topic and a group of it are paused and resumed, and the log says so'() {
    const page = await reader();
    await log_in(page, 'secret', '/?topic=orders');
    const press = (name) => page.getByRole('button', { name, exact: true }).click();
    const confirm = (name) => page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
    for (const [button, said] of [['Pause', 'orders is paused.'], ['Resume', 'orders is resumed.']]) {
      await press(button);
      await confirm(button);
      await sees(page, said);
    }
    await press('Pause a group…');
    await page.getByRole('dialog').getByLabel('Group').fill('user-5');
    await confirm('Pause');
    await sees(page, 'the group user-5 in orders is paused.');
    await sees(page, 'Paused groups: 1');
    await sound(page, 'a topic with a paused group');
    await press('Resume the group user-5');
    await confirm('Resume');
    await sees(page, 'the group user-5 in orders is resumed.');
    await page.getByText('Paused groups').first().waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Actions' }).click();
    await page.getByRole('row', { name: /shop resumed orders the group user-5/ }).waitFor();
    await page.getByRole('row', { name: /shop paused orders/ }).first().waitFor();
  },

  async 'a token that may read gets no buttons'() {
    const page = await reader();
    await log_in(page, 'seen', '/?topic=orders&id=order-4711&group=user-5');
    await sees(page, 'It waits for its due time');
    await sees(page, 'read only');
    await sees(page, 'You have no right to see payloads');
    await sees(page, 'a JSON object');
    await page.locator('dt', { hasText: '/order' }).waitFor();
    assert.equal(await page.getByText('茶').count(), 0, 'a value that is not listed');
    assert.equal(await page.getByRole('button', { name: 'Show the payload' }).count(), 0);
    for (const name of ['Reschedule', 'Cancel the message', 'Make it due now']) assert.equal(await page.getByRole('button', { name }).count(), 0);
    await page.goto(`${GATEWAY}/?topic=payments&state=dead`);
    await sees(page, 'By reason');
    assert.equal(await page.getByRole('button', { name: /Replay/ }).count(), 0);
    for (const place of ['/?topic=letters', '/?view=find&group=user-5', '/?topic=orders']) {
      await page.goto(GATEWAY + place);
      await page.getByRole('link', { name: /^(letters|order|reminder)-/ }).first().waitFor();
      assert.equal(await page.getByRole('checkbox').count(), 0, place);
      for (const name of ['Pause', 'Shift the group', 'Cancel the group']) assert.equal(await page.getByRole('button', { name }).count(), 0, place);
    }
    await page.goto(`${GATEWAY}/?view=operations`);
    await sees(page, 'What was done to all messages');
    assert.equal(await page.getByRole('link', { name: 'Actions' }).count(), 0);
    await page.goto(`${GATEWAY}/?view=actions`);
    await sees(page, 'You have no right to this');
  },

  async 'a removed token ends its session on the screen'() {
    const page = await reader();
    await log_in(page);
    const before = readFileSync(TOKENS, 'utf8');
    writeFileSync(TOKENS, before.split('\n').filter((line) => !line.startsWith('shop ')).join('\n'));
    await sees(page, 'The token of this session was removed');
    assert.equal(await page.getByText('orders').count(), 0);
    writeFileSync(TOKENS, before);
    await new Promise((done) => setTimeout(done, 2500));
  },

  async 'a person logs in at the identity provider, and comes back to where the link led'() {
    const page = await reader();
    await page.goto(`${PEOPLE}/?topic=orders&state=delayed`);
    const button = page.getByRole('button', { name: /^Log in with 127\.0\.0\.1:/ });
    await button.waitFor();
    assert.equal(await page.getByRole('alert').count(), 0, 'nothing failed yet');
    await sound(page, 'the login of people');
    await shot(page, 'page-people');
    await button.click();
    await sees(page, 'logged in as jo@example.com');
    await sees(page, 'Delayed messages of orders');
    assert.match(page.url(), /\?topic=orders&state=delayed$/);
    await page.getByRole('button', { name: 'Log out' }).click();
    await sees(page, 'You are logged out.');
    await page.goto(`${PEOPLE}/?refused=DQ-G132&reason=group&login=0a1b2c3d`);
    await sees(page, 'You are in no group that has rights here');
    await sees(page, 'login 0a1b2c3d');
    assert.equal(page.url(), `${PEOPLE}/`);
    await sound(page, 'a refused login');
    await page.getByText('Log in with a token').click();
    await page.getByLabel('Token').fill('secret');
    await page.keyboard.press('Enter');
    await sees(page, 'token shop');
  },

  async 'without Redis the last figures stay, greyed and with their age'() {
    const page = await reader();
    await log_in(page);
    await page.getByRole('link', { name: 'orders' }).first().waitFor();
    await asked('redis freeze');
    await sees(page, 'The figures below were read');
    assert.equal(await page.locator('main.stale').count(), 1);
    await page.getByRole('link', { name: 'orders' }).first().waitFor();
    await asked('redis thaw');
    await page.locator('main:not(.stale)').waitFor();
  },

  async 'a change without Redis waits in the spool with its age, and is carried out'() {
    const page = await reader();
    await put('orders', 'spooled', { due: '+50h', payload: 'x' });
    await log_in(page, 'secret', '/?topic=orders&id=spooled');
    await asked('redis freeze');
    await api('POST', '/v1/topics/orders/messages/spooled/reschedule', { due: '+1h' });
    await wait_for('the record in the spool', async () => {
      const { sources } = await api('GET', '/v1/processes');
      return sources.some(({ source, waiting, oldest_age_ms }) => source === 'spool' && waiting === 1 && oldest_age_ms > 0);
    });
    await asked('redis thaw');
    await page.getByText(/It waits for its due time, in (1 h|59 min)/).waitFor({ timeout: 2 * PATIENCE_MS });
    await page.getByRole('link', { name: 'Destinations' }).click();
    await page.getByRole('row', { name: /^spool 0 0 0 –/ }).waitFor();
  },

  async 'records of an outbox and of an intake that rest have an age, and are carried out'() {
    const page = await reader();
    // No replica confirms what is written to the topic.
    await put('unconfirmed', 'first', { due: '+50h', payload: 'x' });
    await api('PATCH', '/v1/topics/unconfirmed/policy', { durability: 'replica:1' });
    await asked('record unconfirmed');
    await log_in(page, 'secret', '/?view=destinations');
    const row = (name) => page.getByRole('row', { name }).waitFor();
    for (const source of ['outbox', 'intake.orders']) await row(new RegExp(`^${source} \\d 1 0 [1-9]\\d* s `));
    await sound(page, 'records that rest');
    await api('PATCH', '/v1/topics/unconfirmed/policy', { durability: null });
    for (const source of ['outbox', 'intake.orders']) await row(new RegExp(`^${source} 0 0 0 –`));
    assert.equal((await api('GET', '/v1/topics/unconfirmed')).accepted, 3);
  },

  async 'another gateway of the deployment shows the same'() {
    const page = await reader();
    await page.goto(`${OTHER}/?topic=orders&id=order-4711&group=user-5`);
    await page.getByLabel('Token').fill('secret');
    await page.keyboard.press('Enter');
    await sees(page, 'It waits for its due time');
  },

  async 'the overview has a strip of how late messages became ready'() {
    const page = await reader();
    await log_in(page);
    await page.getByRole('img', { name: /The last hour, a bar a minute/ }).waitFor({ timeout: 4 * PATIENCE_MS });
    await sees(page, /In the last minute: half of \d+ messages within/);
    await sound(page, 'the strip');
  },

  async 'every screen is sound in both themes, wide and narrow, in both languages'() {
    const screens = {
      overview: '/', topic: '/?topic=orders', range: `/?topic=orders&from=${Date.now()}&to=${Date.now() + 6 * 3_600_000}`,
      dead: '/?topic=payments&state=dead', ready: '/?topic=mails&state=ready', message: '/?topic=orders&id=order-4711&group=user-5', find: '/?view=find&group=user-5', walk: '/?view=find&topic=letters&header=customer:3', fleet: '/?view=fleet', destinations: '/?view=destinations', operations: '/?view=operations', actions: '/?view=actions',
    };
    const { operations } = await api('GET', '/v1/operations');
    if (operations.length > 0) screens.operation = `/?view=operations&operation=${operations[0].id}`;
    for (const [at, look] of LOOKS.entries()) {
      const locale = at % 2 === 0 ? 'en-GB' : 'zh-CN';
      const page = await reader(look, locale);
      await page.goto(GATEWAY);
      await sound(page, `the login, ${look.theme}, ${look.width}`);
      await shot(page, `page-login-${look.theme}-${look.width}`);
      await log_in(page);
      for (const [name, place] of Object.entries(screens)) {
        await page.goto(GATEWAY + place);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await page.waitForFunction(() => !/Loading|加载中/.test(document.querySelector('main').textContent));
        await sound(page, `${name}, ${look.theme}, ${look.width}`);
        await shot(page, `page-${name}-${look.theme}-${look.width}`);
      }
      await page.context().close();
    }
  },

  async 'a reader without a pointer reaches everything by the tab key'() {
    const page = await reader();
    await log_in(page);
    await page.goto(`${GATEWAY}/?topic=orders`);
    await page.getByRole('slider').waitFor();
    const reached = new Set();
    for (let i = 0; i < 40; i += 1) {
      await page.keyboard.press('Tab');
      reached.add(await page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.getAttribute('role') || document.activeElement.ariaLabel));
    }
    for (const name of ['Skip to the content', 'Overview', 'Find', '中文', 'Log out', 'The same as a table']) assert.ok(reached.has(name), `${name}: ${[...reached].join(', ')}`);
    for (const start of ['Dead', 'order-', 'Choose order-']) assert.ok([...reached].some((name) => name?.startsWith(start)), start);
  },
};

let failed = 0;
await seed();
for (const [name, walk] of Object.entries(journeys)) {
  if (!PARTS.some((part) => name.includes(part))) continue;
  const start = Date.now();
  try {
    await walk();
    assert.deepEqual(faults.splice(0), []);
    console.log(`ok ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.stack}`);
    for (const context of browser.contexts()) for (const page of context.pages()) console.log(page.url(), (await page.locator('main').textContent().catch(() => '')).replace(/\s+/g, ' ').slice(0, 600));
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
process.exit(failed > 0 ? 1 : 0);
