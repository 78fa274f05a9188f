import { jsonMarshaler, Message, marshal, type Publisher, silentLogger, systemRuntime } from '@ackord/core'
import { type NewOutboxRecord, Relay, type RelayEvent } from '@ackord/outbox'
import type { Command } from 'commander'
import { demoStore } from '../demo/order-service.ts'
import { unlessAborted, waitFor } from '../lifecycle.ts'
import { CommandError, type ExitCode, exitCode, usageError } from '../output/errors.ts'
import { errorText } from '../output/output.ts'
import { counted } from '../output/text.ts'
import type { Execute, Session } from '../session.ts'
import { newCommand, parseInteger, parseOutbox, storeUrls } from '../settings/settings.ts'
import { checkOutbox, openRunStore } from '../stores/open-store.ts'
import type { Store, StoreLocation } from '../stores/store.ts'

interface BenchCommandOptions {
  readonly store?: string | undefined
  readonly outbox?: StoreLocation['outbox']
  readonly records: number
}

export function benchCommand(execute: Execute): Command {
  return newCommand('bench')
    .description(
      'Measures how many events per second the store accepts and relays, from this machine. Uses its own tables or keys, which are removed.',
    )
    .option('--store <url>', storeUrls)
    .option('--outbox <kind>', 'stream or lua (Redis; default: stream)', parseOutbox)
    .option('--records <count>', 'number of events', parseInteger(1, 10_000_000), 5000)
    .action(execute(runBench, { stopsItself: true }))
}

async function runBench({ output, secrets, signal }: Session, { store: url, outbox, records }: BenchCommandOptions): Promise<ExitCode> {
  if (url === undefined)
    throw usageError('--store is missing.', 'It is not read from the environment or a file: a benchmark puts load on the server.')
  checkOutbox(url, outbox)
  const name = `ackord-bench-${systemRuntime.uuid().slice(0, 8)}`
  await using store = await unlessAborted(openRunStore(url, { name, secrets, outbox }), signal)
  const data = demoStore(store)
  try {
    await data.create()
    const onStep = (text: string) => output.line(`${output.colours.cyan('●')} ${text}`)
    const result = await bench({ store, records, signal, onStep })
    output.object(result)
    output.line()
    output.line(`  ${result.appends_per_second} transactions per second, each with one event of 200 bytes, ${writers} concurrently.`)
    output.line(
      `  ${result.relayed_per_second} records per second from the outbox of ${store.address}, without the time that a broker needs.`,
    )
    output.line('  One run on a shared machine: compare runs with each other, not with published numbers.')
    return exitCode.ok
  } finally {
    await data.remove()
  }
}

interface BenchResult {
  readonly records: number
  /** Concurrent transactions that each store one event. */
  readonly appends_per_second: number
  /** Records that a relay publishes to a publisher that confirms everything immediately. */
  readonly relayed_per_second: number
}

interface BenchOptions {
  readonly store: Store
  readonly records: number
  readonly signal: AbortSignal
  readonly onStep: (text: string) => void
}

/** The number of concurrent transactions. */
const writers = 8
const stallTimeout = 60_000

/** Measures the store from this machine. The tables of the run must exist and be empty. */
async function bench({ store, records, signal, onStep }: BenchOptions): Promise<BenchResult> {
  onStep(`${counted(records, 'transaction that stores', 'transactions that each store')} one event, ${writers} concurrently.`)
  const startedAt = systemRuntime.monotonic()
  await append(store, records, signal)
  const appended = systemRuntime.monotonic() - startedAt
  onStep('A relay publishes them to a publisher that does nothing.')
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
    lastAt = systemRuntime.monotonic()
  }
  const startedAt = systemRuntime.monotonic()
  await using running = new Relay(store.outbox({ logger: silentLogger }), {
    publisher,
    logger: silentLogger,
    statsInterval: false,
    onEvent,
  }).start()
  if (await waitFor(() => published >= count, { signal, stallTimeout: stallTimeout, progress: () => String(published) }))
    return lastAt - startedAt
  const { lastStoreError } = running.health()
  const reason = lastStoreError === undefined ? '' : `: ${errorText(lastStoreError)}`
  throw new CommandError(`The relay has published nothing for ${stallTimeout / 1000} s${reason}.`, {
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
