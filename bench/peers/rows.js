// The rows of compare.py for a library of Node with the interface of BullMQ: PROGRAM PORT ROW COUNT IDS (own or generated) BYTES

const HOUR_MS = 3_600_000
const [, , , row, countText, ids, bytes] = process.argv
const count = Number(countText)

const order = (n) => ({order: n, text: 'x'.repeat(bytes - 22 - String(n).length)})
const optionsOf = (n, delay) => ids === 'own' ? {delay, jobId: `order-${n}`} : {delay}
const job = (n, delay) => ({name: 'order', data: order(n), opts: optionsOf(n, delay)})
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const say = (figures) => console.log(JSON.stringify(figures))
const distinct = (orders) => new Set(orders).size

/** Measures the row: `work(handler, concurrency)` starts a worker, and `delayed()` counts the delayed jobs. */
export async function measure(queue, work, delayed) {
  // Batches of 100, eight at a time.
  async function fill(delay) {
    let next = 0
    const putter = async () => {
      while (next < count) {
        const first = next
        next += 100
        const last = Math.min(count, next)
        await queue.addBulk(Array.from({length: last - first}, (_, i) => job(first + i, delay(first + i))))
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

    // BullMQ's workers bring delayed jobs to their queue, a thousand each time that one of them asks for the next job.
    async storm() {
      const due = Date.now() + 10_000
      await fill(() => due - Date.now())
      if (Date.now() > due) throw new Error('too slow to put them in 10 s')
      work(async () => {})
      await sleep(due - Date.now())
      while (await delayed() > 0) await sleep(2)
      say({storm: (Date.now() - due) / 1000})
    },

    async lateness() {
      const start = Date.now() + 8000
      const dues = Array.from({length: count}, () => start + Math.floor(Math.random() * count))
      await Promise.all(dues.map((due, n) => queue.add('order', order(n), optionsOf(n, due - Date.now()))))
      if (Date.now() > start) throw new Error('too slow to put them in 8 s')
      const late = [], orders = []
      work(async ({data}) => {
        late.push(performance.timeOrigin + performance.now() - dues[data.order])
        orders.push(data.order)
      })
      while (late.length < count) await sleep(50)
      late.sort((a, b) => a - b)
      const at = (part) => late[Math.min(late.length - 1, Math.floor(late.length * part))]
      const early = late.filter((ms) => ms < 0).length
      say({p50: at(0.5), p99: at(0.99), max: at(1), early, distinct: distinct(orders)})
    },

    async take() {
      await fill(() => 0)
      const orders = []
      const start = performance.now()
      work(async ({data}) => { orders.push(data.order) })
      while (orders.length < count) await sleep(2)
      say({take: count / (performance.now() - start) * 1000, distinct: distinct(orders)})
    },
  }

  if (!rows[row]) throw new Error(`there is no row ${row}`)
  await rows[row]()
  process.exit(0)
}
