import { type Publisher, publishAll, type RawMessage, type Source } from '@ackord/core'
import { eventMessage } from '../event-message.ts'
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
  const consume = (side: Contestant) => (total: number) => rateOf(total, () => side.consume(total))
  const rates = await runRounds(
    {
      barePublish: publish(open.bare),
      bareConsume: consume(open.bare),
      publish: publish(open.ackord),
      consume: consume(open.ackord),
    },
    { rounds, count },
  )
  return {
    [`${name}_bare_publish_per_s`]: Math.round(rates.barePublish),
    [`${name}_publish_per_s`]: Math.round(rates.publish),
    [`${name}_publish_ratio`]: ratio(rates.publish, rates.barePublish),
    [`${name}_bare_consume_per_s`]: Math.round(rates.bareConsume),
    [`${name}_consume_per_s`]: Math.round(rates.consume),
    [`${name}_consume_ratio`]: ratio(rates.consume, rates.bareConsume),
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

function ratio(one: number, other: number): number {
  return Math.round((one / other) * 100) / 100
}
