import { fork } from 'node:child_process'
import { once } from 'node:events'
import { MemoryBroker, Message, type RateLimiter, Router, silentLogger } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'

const rate = { limit: 100, interval: 1000, burst: 20 }

/** Milliseconds for which the processes of a test run. */
const duration = 1000

/** In a process of its own: handles messages of one tenant at a shared rate, reports when each began, and may die right after it has taken permits. */
export async function runRateProcess(limiter: RateLimiter): Promise<void> {
  const began: number[] = []
  // The processes begin together, once all of them have a connection.
  await limiter.take([{ key: 'other', ...rate, wanted: 1, returned: 0 }], { signal: new AbortController().signal })
  process.send?.('ready')
  await once(process, 'message')
  if (process.env['RATE_DIES'] === 'true') {
    let taken = 0
    installProbe((name) => {
      if (name === 'rates.taken') taken += 1
      if (taken === 3) process.kill(process.pid, 'SIGKILL')
      return undefined
    })
  }
  const broker = new MemoryBroker({ logger: silentLogger })
  const messages = Array.from({ length: 1000 }, (_, index) => {
    return new Message(new TextEncoder().encode('{}'), { id: `${index}`, type: 'test.event', source: '/test', subject: 'tenant' })
  })
  await broker.publish('events', messages)
  const router = new Router({
    concurrency: 8,
    logger: silentLogger,
    fairness: { by: ({ subject }) => subject, rate, limiter, maxWaiting: 100 },
  })
  router.handle({
    type: 'test.event',
    async handle() {
      began.push(Date.now())
      process.send?.({ began: Date.now() })
      return []
    },
  })
  const run = router.run(broker.source('events', { prefetch: 500 }))
  setTimeout(() => void router.stop(), duration)
  await run
  // Returned messages would keep the process alive.
  await broker.close()
}

export interface SharedRate {
  /** How many messages began in all processes. */
  readonly total: number
  /** By how much the messages of any period exceeded what the rate allows, at most. */
  readonly excess: number
  /** What the rate allows while the processes ran. */
  readonly allowed: number
}

/** Runs two processes, and one more that dies, and counts over all of them. */
export async function measureSharedRate(program: string, environment: Readonly<Record<string, string>>): Promise<SharedRate> {
  const began: number[] = []
  const children = ['false', 'false', 'true'].map((dies) => {
    const child = fork(program, [], { env: { ...process.env, ...environment, RATE_DIES: dies }, execArgv: [] })
    child.on('message', (message) => {
      if (typeof message === 'object') began.push((message as { readonly began: number }).began)
    })
    return child
  })
  await Promise.all(children.map((child) => once(child, 'message')))
  const ended = children.map((child) => once(child, 'exit'))
  for (const child of children) child.send('go')
  await Promise.all(ended)
  began.sort((one, other) => one - other)
  const allowedIn = (period: number) => rate.burst + (period * rate.limit) / rate.interval
  let excess = -Infinity
  for (const [first, from] of began.entries()) {
    // A permit may be used within a second of when it was granted.
    for (let last = first; last < began.length; last += 1)
      excess = Math.max(excess, last - first + 1 - allowedIn((began[last] ?? from) - from + 1000))
  }
  return { total: began.length, excess, allowed: allowedIn(duration) }
}
