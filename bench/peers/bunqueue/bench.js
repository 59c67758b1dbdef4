// The rows of compare.py for bunqueue, embedded in this program, without Redis: in memory, or with `durable` after the row's
// arguments in an SQLite file.

import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {Queue, Worker} from 'bunqueue/client'
import {measure} from '../rows.js'

// The memory of a message is that of a Redis, and there is none.
if (process.argv[3] === 'memory') process.exit(3)
const place = {embedded: true}
if (process.argv[7] === 'durable') {
  const folder = mkdtempSync(join(tmpdir(), 'delayq-bunqueue-'))
  process.on('exit', () => rmSync(folder, {recursive: true, force: true}))
  place.dataPath = join(folder, 'queue.db')
}
const queue = new Queue('orders', {...place, defaultJobOptions: {removeOnComplete: true, removeOnFail: true}})

await measure(
  queue,
  (handle) => new Worker('orders', handle, {...place, concurrency: 64}),
  async () => (await queue.getJobCountsAsync()).delayed,
)
