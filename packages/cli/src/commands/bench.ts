import { systemRuntime } from '@ackord/core'
import type { Command } from 'commander'
import { bench, writers } from '../bench/bench.ts'
import { usageError } from '../command-error.ts'
import { demoStore } from '../demo/demo-store.ts'
import type { Execute } from '../execute.ts'
import { type ExitCode, exitCode } from '../exit-code.ts'
import { checkOutbox, openRunStore } from '../open-run-store.ts'
import type { Session } from '../session.ts'
import { newCommand, parseOutbox, parseWhole, storeUrls } from '../settings.ts'
import { unlessAborted } from '../stopping.ts'
import type { StorePlace } from '../stores/store.ts'

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
