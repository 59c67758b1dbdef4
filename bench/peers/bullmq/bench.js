// The rows of compare.py for BullMQ.

import {Queue, Worker} from 'bullmq'
import {Redis} from 'ioredis'
import {measure} from '../rows.js'

const connection = {host: '127.0.0.1', port: Number(process.argv[2]), maxRetriesPerRequest: null}
const queue = new Queue('orders', {connection, defaultJobOptions: {removeOnComplete: true, removeOnFail: true}})
const redis = new Redis(connection)

await measure(
  queue,
  (handle) => new Worker('orders', handle, {connection, concurrency: 64}),
  () => redis.zcard('bull:orders:delayed'),
)
