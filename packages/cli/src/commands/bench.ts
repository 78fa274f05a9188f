import { jsonMarshaler, Message, marshal, type Publisher, silentLogger, systemRuntime } from '@ackord/core'
import { type NewOutboxRecord, Relay, type RelayEvent } from '@ackord/outbox'
import type { Command } from 'commander'
import { demoStore } from '../demo/order-service.ts'
import { unlessAborted, waitFor } from '../lifecycle.ts'
import { CommandError, type ExitCode, exitCode, usageError } from '../output/errors.ts'
import { errorText } from '../output/output.ts'
import type { Execute, Session } from '../session.ts'
import { newCommand, parseOutbox, parseWhole, storeUrls } from '../settings/settings.ts'
import { checkOutbox, openRunStore } from '../stores/open-store.ts'
import type { Store, StorePlace } from '../stores/store.ts'

interface BenchCommandOptions {
  readonly store?: string | undefined
  readonly outbox?: StorePlace['outbox']
  readonly records: number
}

export function benchCommand(execute: Execute): Command {
  return newCommand('bench')
    .description('How many events a second the store takes and gives, from this machine, now. Under names of its own, which are removed.')
    .option('--store <url>', storeUrls)
    .option('--outbox <kind>', 'stream or lua (Redis; default: stream)', parseOutbox)
    .option('--records <count>', 'how many', parseWhole(1, 10_000_000), 5000)
    .action(execute(runBench, { stopsItself: true }))
}

async function runBench({ output, secrets, signal }: Session, { store: url, outbox, records }: BenchCommandOptions): Promise<ExitCode> {
  if (url === undefined)
    throw usageError('--store is missing.', 'It is not taken from the environment or a file: a benchmark puts load on the server.')
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
    output.line(`  ${result.appends_per_second} transactions a second, each with one event of 200 bytes, ${writers} at once.`)
    output.line(
      `  ${result.relayed_per_second} records a second from the outbox of ${store.address}; what the broker takes for it comes on top.`,
    )
    output.line('  One run on a machine that does other things, too: compare runs, not numbers of others.')
    return exitCode.ok
  } finally {
    await data.remove()
  }
}

interface BenchResult {
  readonly records: number
  /** Transactions that each store one event, several at once. */
  readonly appends_per_second: number
  /** Records that a relay carries to a publisher which takes everything at once. */
  readonly relayed_per_second: number
}

interface BenchOptions {
  readonly store: Store
  readonly records: number
  readonly signal: AbortSignal
  readonly onStep: (text: string) => void
}

/** How many transactions are open at once. */
const writers = 8
const patience = 60_000

/** What the store can do, from here and now. The tables of the run must be there, and empty. */
async function bench({ store, records, signal, onStep }: BenchOptions): Promise<BenchResult> {
  onStep(`${records} transactions that each store one event, ${writers} at once.`)
  const startedAt = systemRuntime.monotonic()
  await append(store, records, signal)
  const appended = systemRuntime.monotonic() - startedAt
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
    lastAt = systemRuntime.monotonic()
  }
  const startedAt = systemRuntime.monotonic()
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
