import { type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { eventMessage } from '../event-message.ts'
import { spread } from '../figures.ts'
import { rateOf, runRounds } from '../rounds.ts'

/** The number of messages per confirmed publish, and the maximum of unacked messages of a consumer. */
const batch = 500
export const prefetch = 100
const count = 20_000
const rounds = 5

/** One side of the comparison: the library, or the client alone. */
export interface Contestant {
  /** Sends all messages; resolves when they are confirmed. */
  publish(messages: readonly RawMessage[]): Promise<void>
  /** Consumes `count` messages and acks them one by one as they arrive; resolves to their number when the broker has every ack. */
  consume(count: number): Promise<number>
}

export interface Contest extends AsyncDisposable {
  readonly bare: Contestant
  readonly ackord: Contestant
}

/** Each side consumes the messages that it has published itself, alternately, on the same broker. */
export async function contestFigures(name: string, contest: Contest): Promise<Record<string, number>> {
  await using open = contest
  // The ids do not matter here.
  const messages = Array.from({ length: batch }, (_, index) => eventMessage(`e-${index}`))
  const publish = (side: Contestant) => (total: number) =>
    rateOf(total, async () => {
      for (let sent = 0; sent < total; sent += batch) await side.publish(messages)
      return total
    })
  // Unlike the rate, the processor time hardly depends on what else the machine does.
  const cpu = { bare: [] as number[], ackord: [] as number[] }
  const consume = (side: 'bare' | 'ackord') => (total: number) =>
    rateOf(total, async () => {
      const before = process.cpuUsage()
      const done = await open[side].consume(total)
      const { user, system } = process.cpuUsage(before)
      cpu[side].push((user + system) / total)
      return done
    })
  const rates = await runRounds(
    {
      barePublish: publish(open.bare),
      bareConsume: consume('bare'),
      publish: publish(open.ackord),
      consume: consume('ackord'),
    },
    { rounds, count },
  )
  return {
    ...spread(`${name}_bare_publish_per_s`, rates.of('barePublish')),
    ...spread(`${name}_publish_per_s`, rates.of('publish')),
    ...spread(`${name}_publish_ratio`, rates.ratios('publish', 'barePublish')),
    ...spread(`${name}_bare_consume_per_s`, rates.of('bareConsume')),
    ...spread(`${name}_consume_per_s`, rates.of('consume')),
    ...spread(`${name}_consume_ratio`, rates.ratios('consume', 'bareConsume')),
    // Without the warm-up.
    ...spread(`${name}_bare_consume_cpu_us`, cpu.bare.slice(1)),
    ...spread(`${name}_consume_cpu_us`, cpu.ackord.slice(1)),
  }
}

/** The library's side, on any broker. */
export function ackordContestant(publisher: Publisher, source: Source & AsyncDisposable, destination: string): Contestant {
  return {
    publish: (messages) => publishAll(publisher, destination, messages),
    async consume(total) {
      let done = 0
      const acks: Promise<boolean>[] = []
      for await (const message of source.messages({ signal: new AbortController().signal })) {
        acks.push(message.ack())
        done += 1
        if (done === total) break
      }
      const acked = await Promise.all(acks)
      return acked.filter(Boolean).length
    },
  }
}
