import { type Publisher, type PublishResult, probe } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkNoMore, checkResultCount } from '@ackord/core/internal'
import type { ClaimedRecord, OutboxStore } from '@ackord/outbox'
import type { PublishedEvent } from './assertions.ts'

export interface InlineRelayOptions {
  /** How many records one claim takes. Default: 500. */
  readonly batchSize?: number | undefined
  /** Milliseconds for which a claimed record is nobody else's. Nothing renews it. Default: 30,000. */
  readonly lease?: number | undefined
}

export interface InlineRelay {
  /**
   * Publishes all that is committed and due, one batch after the other, and gives what was published. Records that wait for their time stay. If the
   * publisher refuses one, the rest is published, and then it rejects; what was refused stays as it was.
   */
  drain(): Promise<readonly PublishedEvent[]>
}

/** A relay for tests: it works when it is told to, in the caller's own time, and starts no timer. */
export function inlineRelay(store: OutboxStore, publisher: Publisher, options: InlineRelayOptions = {}): InlineRelay {
  const { batchSize = 500, lease = 30_000, ...unknown } = options
  checkNoMore('inlineRelay()', unknown)
  checkFunction('inlineRelay(store).claim', store?.claim)
  checkFunction('inlineRelay(…, publisher).publish', publisher?.publish)
  checkCount('batchSize', batchSize)
  checkDuration('lease', lease, { min: 1 })
  const ordered = store.capabilities.order === 'perKey'

  /** The outcome of each, in their order. A publisher that throws has refused all. */
  async function publish(destination: string, records: readonly ClaimedRecord[]): Promise<readonly PublishResult[]> {
    const messages = records.map(({ message }) => message)
    try {
      const results = await publisher.publish(destination, messages, { signal: new AbortController().signal })
      checkResultCount(results, messages.length, destination)
      return results
    } catch (error) {
      return records.map(() => ({ ok: false, error }))
    }
  }

  async function carry(records: readonly ClaimedRecord[], refused: Map<ClaimedRecord, unknown>): Promise<readonly PublishedEvent[]> {
    await probe('relay.claimed')
    const stopped = new Set<string>()
    for (const run of ordered ? records.map(alone) : runsOf(records)) {
      const behind = run.records.find((record) => stopped.has(keyOf(record)))
      const results = behind === undefined ? await publish(run.destination, run.records) : [{ ok: false, error: isBehind(behind) } as const]
      for (const [index, result] of results.entries()) {
        const record = run.records[index]
        if (record === undefined || result.ok) continue
        refused.set(record, result.error)
        if (ordered && record.message.attributes.partitionkey !== undefined) stopped.add(keyOf(record))
      }
    }
    await probe('relay.published')
    await probe('relay.beforeSettle')
    const published = records.filter((record) => !refused.has(record))
    await store.settle(published.map(({ id, token }) => ({ id, token, result: 'published' })))
    await probe('relay.afterSettle')
    return published.map(({ destination, message }) => ({ destination, message }))
  }

  return {
    async drain() {
      const all: PublishedEvent[] = []
      const refused = new Map<ClaimedRecord, unknown>()
      // Given back at the end: sooner, the next claim would find them again.
      for (;;) {
        const records = await store.claim({ limit: batchSize, lease })
        if (records.length === 0) break
        all.push(...(await carry(records, refused)))
      }
      await store.release([...refused.keys()])
      await store.leave?.()
      if (refused.size > 0) throw refusal(refused)
      return all
    },
  }
}

interface Run {
  readonly destination: string
  readonly records: readonly ClaimedRecord[]
}

/** With order per key: one that is refused holds up those behind it, so that each is a call of its own. */
function alone(record: ClaimedRecord): Run {
  return { destination: record.destination, records: [record] }
}

function keyOf({ destination, message }: ClaimedRecord): string {
  return JSON.stringify([destination, message.attributes.partitionkey])
}

function isBehind({ message }: ClaimedRecord): Error {
  return new Error(`${message.type} '${message.id}' was not sent: one before it in its key was refused.`)
}

/** Neighbours of one destination go together; the order stays. */
function runsOf(records: readonly ClaimedRecord[]): readonly Run[] {
  const runs: { destination: string; records: ClaimedRecord[] }[] = []
  for (const record of records) {
    const last = runs.at(-1)
    if (last?.destination === record.destination) last.records.push(record)
    else runs.push({ destination: record.destination, records: [record] })
  }
  return runs
}

function refusal(refused: ReadonlyMap<ClaimedRecord, unknown>): AggregateError {
  const names = [...refused.keys()].map(({ destination, message }) => `${message.type} '${message.id}' to '${destination}'`)
  const text = `The publisher refused ${refused.size} of the records, which stay in the outbox: ${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}.`
  return new AggregateError([...refused.values()], text)
}
