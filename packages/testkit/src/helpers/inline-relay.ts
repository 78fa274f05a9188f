import type { Publisher, PublishResult } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkResultCount, probe, rejectUnknownOptions } from '@ackord/core/internal'
import type { ClaimedRecord, OutboxStore } from '@ackord/outbox'
import type { PublishedEvent } from './assertions.ts'

export interface InlineRelayOptions {
  /** The maximum number of records per claim. Default: 500. */
  readonly batchSize?: number | undefined
  /** The lease of a claimed record in milliseconds. It is not renewed. Default: 30,000. */
  readonly lease?: number | undefined
}

export interface InlineRelay {
  /**
   * Publishes all records that are committed and due, batch by batch, and returns the published events. Delayed records stay. If the
   * publisher refuses a record, the others are published, and then the call rejects; the refused record is unchanged.
   */
  drain(): Promise<readonly PublishedEvent[]>
}

/** A relay for tests: it publishes when `drain()` is called and starts no timers. */
export function inlineRelay(store: OutboxStore, publisher: Publisher, options: InlineRelayOptions = {}): InlineRelay {
  const { batchSize = 500, lease = 30_000, ...unknown } = options
  rejectUnknownOptions('inlineRelay()', unknown)
  checkFunction('inlineRelay(store).claim', store?.claim)
  checkFunction('inlineRelay(…, publisher).publish', publisher?.publish)
  checkCount('batchSize', batchSize)
  checkDuration('lease', lease, { min: 1 })
  const ordered = store.capabilities.order === 'perKey'

  /** The outcome of each record, in order. A publisher that throws has refused all of them. */
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
      // Released at the end: if released earlier, the next claim would return them again.
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

/** With order per key, a refused record holds up the records behind it, so each record is published in a call of its own. */
function alone(record: ClaimedRecord): Run {
  return { destination: record.destination, records: [record] }
}

function keyOf({ destination, message }: ClaimedRecord): string {
  return JSON.stringify([destination, message.attributes.partitionkey])
}

function isBehind({ message }: ClaimedRecord): Error {
  return new Error(`${message.type} '${message.id}' was not sent, because an earlier record of its key was refused.`)
}

/** Groups neighbouring records of one destination and keeps the order. */
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
