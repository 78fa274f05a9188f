import { jsonMarshaler, Message, marshal, type Publisher, silentLogger, systemRuntime } from '@ackord/core'
import { type NewOutboxRecord, Relay, type RelayEvent } from '@ackord/outbox'
import { CommandError } from '../command-error.ts'
import { exitCode } from '../exit-code.ts'
import { errorText } from '../output.ts'
import type { Store } from '../stores/store.ts'
import { waitFor } from '../wait-for.ts'

export interface BenchResult {
  readonly records: number
  /** Transactions that each store one event, several at once. */
  readonly appends_per_second: number
  /** Records that a relay carries to a publisher which takes everything at once. */
  readonly relayed_per_second: number
}

export interface BenchOptions {
  readonly store: Store
  readonly records: number
  readonly signal: AbortSignal
  readonly onStep: (text: string) => void
}

/** How many transactions are open at once. */
export const writers = 8
const patience = 60_000

/** What the store can do, from here and now. The tables of the run must be there, and empty. */
export async function bench({ store, records, signal, onStep }: BenchOptions): Promise<BenchResult> {
  onStep(`${records} transactions that each store one event, ${writers} at once.`)
  const startedAt = systemRuntime.now()
  await append(store, records, signal)
  const appended = systemRuntime.now() - startedAt
  onStep('A relay carries them to a publisher that does nothing.')
  const relayed = await relay(store, records, signal)
  return { records, appends_per_second: rate(records, appended), relayed_per_second: rate(records, relayed) }
}

async function append(store: Store, count: number, signal: AbortSignal): Promise<void> {
  let next = 0
  const write = async () => {
    while (next < count) {
      signal.throwIfAborted()
      next += 1
      await store.append([record(next)])
    }
  }
  const writing = await Promise.allSettled(Array.from({ length: writers }, write))
  for (const each of writing) if (each.status === 'rejected') throw each.reason
}

/** Resolves to the milliseconds from its start to the last record. */
async function relay(store: Store, count: number, signal: AbortSignal): Promise<number> {
  const publisher: Publisher = { publish: (_, messages) => Promise.resolve(messages.map(() => ({ ok: true }))) }
  let published = 0
  let lastAt = 0
  const onEvent = (event: RelayEvent) => {
    if (event.type !== 'published') return
    published += event.records.length
    lastAt = systemRuntime.now()
  }
  const startedAt = systemRuntime.now()
  await using running = new Relay(store.outbox({ logger: silentLogger }), {
    publisher,
    logger: silentLogger,
    statsInterval: false,
    onEvent,
  }).start()
  if (await waitFor(() => published >= count, { signal, patience, progress: () => String(published) })) return lastAt - startedAt
  const { lastStoreError } = running.health()
  const reason = lastStoreError === undefined ? '' : `: ${errorText(lastStoreError)}`
  throw new CommandError(`The relay has carried nothing for ${patience / 1000} s${reason}.`, {
    exitCode: exitCode.failed,
    cause: lastStoreError,
  })
}

function record(index: number): NewOutboxRecord {
  const attributes = { id: `bench-${index}`, type: 'bench.measured', source: '/bench', specversion: '1.0' }
  return { destination: 'bench', message: marshal(new Message({ index, text: 'x'.repeat(200) }, attributes), jsonMarshaler) }
}

function rate(count: number, milliseconds: number): number {
  return Math.round((count * 1000) / Math.max(1, milliseconds))
}
