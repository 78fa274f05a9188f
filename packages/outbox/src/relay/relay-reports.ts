import { hostname } from 'node:os'
// biome-ignore lint/style/noRestrictedImports: it is only read, so that operators find the process.
import { pid } from 'node:process'
import { idle, type Runtime } from '@ackord/core'
import { abortable, withTimeLimit } from '@ackord/core/internal'
import type { OutboxMeter } from '../delivery/relay-observer.ts'
import { rateLifetime, relayLifetime } from '../store/note-administration.ts'
import type { OutboxNotes } from '../store/notes.ts'
import type { OutboxRate, RelayReport } from '../store/outbox-admin.ts'

export interface RelayReportsOptions {
  readonly notes: OutboxNotes
  readonly runtime: Runtime
  readonly meter: OutboxMeter
  /** The destinations that the relay serves; `undefined`: all. */
  readonly destinations: readonly string[] | undefined
  /** The parts of the report that only the running relay knows. */
  readonly state: () => Pick<RelayReport, 'inFlight' | 'down' | 'partitions' | 'ownedPartitions'>
}

/** Milliseconds. A third of the time for which a relay counts as alive. */
const interval = relayLifetime / 3
const reportsPerRate = 6
/** Milliseconds that the store gets when the relay stops. */
const lastCalls = 1000
const background = { keepAlive: false }

/**
 * Tells the store every ten seconds that the relay is alive, and every minute what it has published. Runs until the signal is aborted, and never rejects: what a report
 * contains is for people, and other calls find out whether the store works.
 */
export async function sendReports(options: RelayReportsOptions, signal: AbortSignal): Promise<void> {
  const { notes, runtime, meter, destinations, state } = options
  const id = runtime.uuid()
  const startedAt = runtime.monotonic()
  let ratesFrom = startedAt
  let reports = 0

  async function report(): Promise<void> {
    const { published, failed, parked } = meter.totals
    const uptime = Math.round(runtime.monotonic() - startedAt)
    const own = { host: hostname(), pid, uptime, destinations, published, failed, parked, ...state() }
    await notes.put('relay', [{ name: id, value: JSON.stringify(own) }], relayLifetime)
  }

  async function reportRates(): Promise<void> {
    const rates = meter.takeRates()
    const now = runtime.monotonic()
    const duration = Math.round(now - ratesFrom)
    ratesFrom = now
    if (rates.length === 0) return
    const written = rates.map((rate): Omit<OutboxRate, 'at'> => ({ ...rate, duration }))
    const name = runtime.uuid()
    await notes.put(
      'rate',
      written.map((rate, index) => ({ name: `${name}/${index}`, value: JSON.stringify(rate) })),
      rateLifetime,
    )
  }

  for (let wait = 0; await idle(runtime, wait, signal, background); wait = interval) {
    try {
      await abortable(report(), signal)
      reports += 1
      if (reports % reportsPerRate === 0) await abortable(reportRates(), signal)
    } catch {
      // The next report replaces this one. The rates of a minute that could not be written are lost.
    }
  }
  // A relay that is not reported as gone disappears from the list by itself.
  const late = () => new Error('The store did not answer in time.')
  await withTimeLimit(runtime, lastCalls, late, () => Promise.all([reportRates(), notes.delete('relay', id)])).catch(() => {})
}
