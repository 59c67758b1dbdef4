// The rows of compare.py for BullMQ: node bench.js REDIS_PORT ROW COUNT IDS (own or generated)

import {Queue, Worker} from 'bullmq'
import {Redis} from 'ioredis'

const [port, row, count, ids] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4]), process.argv[5]]
const connection = {host: '127.0.0.1', port, maxRetriesPerRequest: null}
const options = {removeOnComplete: true, removeOnFail: true}
const queue = new Queue('orders', {connection, defaultJobOptions: options})
const redis = new Redis(connection)
const HOUR_MS = 3_600_000

const order = (n) => ({order: n, text: 'x'.repeat(200 - 22 - String(n).length)})
const optionsOf = (n, delay) => ids === 'own' ? {delay, jobId: `order-${n}`} : {delay}
const job = (n, delay) => ({name: 'order', data: order(n), opts: optionsOf(n, delay)})
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const say = (figures) => console.log(JSON.stringify(figures))

// Batches of 100, eight at a time.
async function fill(delay) {
  let next = 0
  const putter = async () => {
    while (next < count) {
      const first = next
      next += 100
      await queue.addBulk(Array.from({length: 100}, (_, i) => job(first + i, delay(first + i))))
    }
  }
  await Promise.all(Array.from({length: 8}, putter))
}

const rows = {
  async put_bulk() {
    const start = performance.now()
    await fill(() => HOUR_MS)
    say({put_bulk: count / (performance.now() - start) * 1000})
  },

  async put_single() {
    let next = 0
    const caller = async () => {
      while (next < count) {
        const {name, data, opts} = job(next++, HOUR_MS)
        await queue.add(name, data, opts)
      }
    }
    const start = performance.now()
    await Promise.all(Array.from({length: 64}, caller))
    say({put_single: count / (performance.now() - start) * 1000})
  },

  // Bytes are counted by who asks.
  async memory() {
    await fill((n) => HOUR_MS + n * 10)
    say({})
  },

  // Its workers bring delayed jobs to their queue, a thousand each time that one of them asks for the next job.
  async storm() {
    const due = Date.now() + 10_000
    await fill(() => due - Date.now())
    if (Date.now() > due) throw new Error('too slow to put them in 10 s')
    const worker = new Worker('orders', async () => {}, {connection, concurrency: 64})
    await sleep(due - Date.now())
    while (await redis.zcard('bull:orders:delayed') > 0) await sleep(2)
    say({storm: (Date.now() - due) / 1000})
    await worker.close(true)
  },

  async lateness() {
    const start = Date.now() + 8000
    const dues = Array.from({length: count}, () => start + Math.floor(Math.random() * count))
    await Promise.all(dues.map((due, n) => queue.add('order', {...order(n), due}, optionsOf(n, due - Date.now()))))
    if (Date.now() > start) throw new Error('too slow to put them in 8 s')
    const late = []
    const worker = new Worker('orders', async ({data}) => {
      late.push(performance.timeOrigin + performance.now() - data.due)
    }, {connection, concurrency: 64})
    while (late.length < count) await sleep(50)
    await worker.close()
    late.sort((a, b) => a - b)
    const at = (part) => late[Math.min(late.length - 1, Math.floor(late.length * part))]
    say({p50: at(0.5), p99: at(0.99), max: at(1), early: late.filter((ms) => ms < 0).length})
  },

  async take() {
    await fill(() => 0)
    let done = 0
    const start = performance.now()
    const worker = new Worker('orders', async () => { done++ }, {connection, concurrency: 64})
    while (done < count) await sleep(2)
    say({take: count / (performance.now() - start) * 1000})
    await worker.close()
  },
}

await rows[row]()
process.exit(0)
