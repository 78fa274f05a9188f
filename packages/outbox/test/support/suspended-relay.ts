import { Message } from '@ackord/core'
import { MemoryOutboxStore, Relay } from '@ackord/outbox'

/** A relay with short times that suspends itself while it publishes. Prints its log, and `drained` when everything is published after the test has continued it. */
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

let suspended = false
const relay = new Relay(store, {
  lease: 2000,
  publishTimeout: 1000,
  pollInterval: 20,
  logger: logger as never,
  publisher: {
    async publish(_, messages) {
      process.stdout.write('publishing\n')
      // Longer than the lease is renewed after, so that a timer of the relay is due during the suspension before the publish ends.
      const published = new Promise((resolve) => setTimeout(resolve, 800))
      if (!suspended) process.kill(process.pid, 'SIGSTOP')
      suspended = true
      await published
      return messages.map(() => ({ ok: true }))
    },
  },
})
append(5)
relay.start()
let lastTick = performance.now()
// Ten ticks after the suspension, so that the relay's own timers have run too, however slow the machine is.
let ticksLeft = Number.POSITIVE_INFINITY
const timer = setInterval(async () => {
  if (performance.now() - lastTick > 2500) ticksLeft = 10
  lastTick = performance.now()
  ticksLeft -= 1
  append(1)
  const { destinations } = await store.stats()
  const waiting = destinations.reduce((sum, { ready, leased }) => sum + ready + leased, 0)
  if (ticksLeft <= 0 && waiting <= 10) {
    clearInterval(timer)
    await relay.stop()
    process.stdout.write('drained\n')
  }
}, 100)
