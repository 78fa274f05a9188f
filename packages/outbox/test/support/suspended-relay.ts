import { Message } from '@ackord/core'
import { MemoryOutboxStore, Relay } from '@ackord/outbox'

/** A relay with short times that the test suspends. Prints its log, and `drained` when everything is published after a suspension. */
const store = new MemoryOutboxStore()
const print = (level: string) => (_: unknown, message: string) => void process.stdout.write(`${level} ${message}\n`)
const logger = { trace() {}, debug() {}, info: print('info'), warn: print('warn'), error: print('error') }

function append(count: number): void {
  const transaction = store.begin()
  const records = Array.from({ length: count }, (_, index) => ({
    destination: 'orders',
    message: new Message(new Uint8Array([1]), { id: `e${index}`, type: 'order.placed', source: '/orders', specversion: '1.0' }),
  }))
  void store.append(transaction, records)
  transaction.commit()
}

const startedAt = performance.now()
const relay = new Relay(store, {
  lease: 2000,
  publishTimeout: 1000,
  pollInterval: 20,
  logger: logger as never,
  publisher: {
    async publish(_, messages) {
      process.stdout.write('publishing\n')
      await new Promise((resolve) => setTimeout(resolve, 200))
      return messages.map(() => ({ ok: true }))
    },
  },
})
append(5)
relay.start()
const timer = setInterval(async () => {
  append(1)
  const { destinations } = await store.stats()
  const waiting = destinations.reduce((sum, { ready, leased }) => sum + ready + leased, 0)
  if (performance.now() - startedAt > 4500 && waiting <= 10) {
    clearInterval(timer)
    await relay.stop()
    process.stdout.write('drained\n')
  }
}, 100)
