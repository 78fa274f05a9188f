// One process of the pipeline. Its parent sends a `Setup`, then questions, which it answers one after the other.
import { brokerKinds } from './brokers.ts'
import { publishOrders, type Stop, startOrders, startRelay, startShipping } from './parts.ts'
import { type Answer, now, type Question, type Setup } from './protocol.ts'

/** The orders that the second service has committed and that were not reported yet. */
let latencies: number[] = []
let lastCommit = 0
let onCommit: (() => void) | undefined

// Nothing is left running if the parent was interrupted.
process.once('disconnect', () => process.exit(1))
process.once('message', (setup) => void start(setup as Setup).catch(fail))

async function start({ broker: name, roles, prefix }: Setup): Promise<void> {
  const broker = await brokerKinds[name].connect(prefix)
  const stops: Stop[] = []
  for (const role of roles) {
    if (role === 'orders') stops.push(startOrders(broker, prefix))
    if (role === 'relay') stops.push(startRelay(broker, prefix))
    if (role === 'shipping') stops.push(startShipping(broker, prefix, committed))
  }

  async function answer(question: Question): Promise<Answer> {
    switch (question.ask) {
      case 'publish':
        return { at: await publishOrders(broker, prefix, question.count, question.perSecond) }
      case 'committed':
        return await commits(question.count)
      case 'cpu': {
        const { user, system } = process.cpuUsage()
        return { cpu: user + system }
      }
      case 'stop':
        for (const stop of stops) await stop()
        await broker[Symbol.asyncDispose]()
        return {}
    }
  }

  process.on('message', (question) => {
    void answer(question as Question)
      .then(send)
      .catch(fail)
  })
  send({})
}

function committed(publishedAt: number): void {
  lastCommit = now()
  latencies.push(lastCommit - publishedAt)
  onCommit?.()
}

async function commits(count: number): Promise<Answer> {
  while (latencies.length < count) {
    await new Promise<void>((resolve) => {
      onCommit = resolve
    })
  }
  const reported = latencies
  latencies = []
  return { at: lastCommit, latencies: reported }
}

function send(answer: Answer): void {
  process.send?.(answer)
}

function fail(error: unknown): void {
  send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
}
