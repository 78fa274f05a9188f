import { writeSync } from 'node:fs'
import { defineEvent, Message, rootContext, silentLogger, sleep, systemRuntime } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { defineProcess, when } from '@ackord/outbox'
import { Redis as Ioredis } from 'ioredis'
import { fromIoredis, InboxBusyError, redisProcesses, streamOutbox, transactional } from '../../src/index.ts'

const { CRASH_REDIS = '', CRASH_TAG = '', CRASH_POINT, CRASH_EVENT = '' } = process.env

const orderPlaced = defineEvent<{ readonly id: string }>('order.placed')
const stepDone = defineEvent<{ readonly id: string }>('step.done')

interface OrderState {
  readonly log: readonly string[]
}

const orderProcess = defineProcess<OrderState>({
  name: 'order',
  state: () => ({ log: [] }),
  startedBy: [
    when(orderPlaced, ({ log }, { data }, step) => {
      step.send(stepDone({ id: data.id }))
      step.timeout('payment', 60_000)
      return { log: [...log, data.id] }
    }),
  ],
  correlate: () => 'o1',
  timeouts: { payment: (state) => state },
  destination: 'order-process',
  source: '/order-process',
})

installProbe((point) => {
  if (point === CRASH_POINT) process.kill(process.pid, 'SIGKILL')
})

const client = new Ioredis(CRASH_REDIS)
const redis = fromIoredis(client, { logger: silentLogger })
const outbox = streamOutbox(redis, { tags: [CRASH_TAG], logger: silentLogger })
const processes = redisProcesses(redis, { tag: CRASH_TAG })
const middleware = transactional(redis, {
  inbox: { consumer: 'order', tag: CRASH_TAG, lease: 1000 },
  outbox: { outbox, destination: 'steps' },
})
const [handler] = orderProcess.handlers(processes)

async function handle(): Promise<void> {
  const message = new Message({ id: CRASH_EVENT }, { id: CRASH_EVENT, type: 'order.placed', source: '/shop', specversion: '1.0' })
  try {
    await middleware((given, context) => handler?.handle(given, context) ?? Promise.resolve([]))(message, message.context(rootContext()))
  } catch (error) {
    // The lease of the process that was killed has not ended yet.
    if (!(error instanceof InboxBusyError)) throw error
    await sleep(systemRuntime, error.retryAfter)
    await handle()
  }
}

await handle()
const found = await processes.get({ process: 'order', id: 'o1' })
const { records } = await outbox.list({}, { limit: 1000 })
const sent = records.map(({ message }) => [message.type, JSON.parse(new TextDecoder().decode(message.data)).id])
writeSync(1, JSON.stringify({ log: JSON.parse(found?.state ?? '{}').log, sent }))
client.disconnect()
