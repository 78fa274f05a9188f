import { once } from 'node:events'
import { silentLogger, systemRuntime } from '@ackord/core'
import type { Command } from 'commander'
import { openBroker } from '../brokers/open-broker.ts'
import { type DemoReport, demo } from '../demo/demo.ts'
import { demoView, showSummary } from '../demo/demo-view.ts'
import { unlessAborted } from '../lifecycle.ts'
import { type ExitCode, exitCode } from '../output/errors.ts'
import { serveStores } from '../serving/dashboard-server.ts'
import type { Execute, Session } from '../session.ts'
import { operatorOf } from '../settings/operator.ts'
import { newCommand, parseInteger, parseOutbox, storeUrls } from '../settings/settings.ts'
import { checkOutbox, openRunStore } from '../stores/open-store.ts'
import type { StoreLocation } from '../stores/store.ts'

interface DemoCommandOptions {
  readonly orders: number
  readonly store?: string | undefined
  readonly outbox?: StoreLocation['outbox']
  readonly broker?: string | undefined
  readonly dashboard?: boolean | undefined
}

export function demoCommand(execute: Execute): Command {
  return newCommand('demo')
    .description('Processes orders through duplicates, failures, a crash and an outage; in the end each is applied once. Needs no server.')
    .option('--orders <count>', 'number of orders', parseInteger(1, 1_000_000), 1000)
    .option('--store <url>', `${storeUrls} (default: PostgreSQL in this process)`)
    .option('--outbox <kind>', 'stream or lua (Redis; default: stream)', parseOutbox)
    .option(
      '--broker <url>',
      'amqp://, amqp10://, nats://, kafka://, mqtt://, redis://, redis+cluster://, sqs: or memory: (default: memory:)',
    )
    .option('--dashboard', 'show it in a web page, too, until Ctrl-C')
    .action(execute(runDemo, { stopsItself: true }))
}

async function runDemo(
  session: Session,
  { orders, store: storeUrl, outbox, broker: brokerUrl = 'memory:', dashboard = false }: DemoCommandOptions,
): Promise<ExitCode> {
  checkOutbox(storeUrl, outbox)
  const { output, secrets, signal } = session
  const name = `ackord-demo-${systemRuntime.uuid().slice(0, 8)}`
  const view = demoView(output, orders)
  try {
    const opening = openBroker(brokerUrl, { option: '--broker', logger: silentLogger, secrets, memory: true })
    await using broker = await unlessAborted(opening, signal)
    if (storeUrl === undefined) view.onStep('Starting PostgreSQL in this process.')
    await using store = await unlessAborted(openRunStore(storeUrl, { name, secrets, outbox }), signal)
    const topics = { orders: `${name}-orders`, events: `${name}-events` }
    const serving = { host: '127.0.0.1', port: 0, by: operatorOf({}) }
    await using served = dashboard ? await serveStores(session, new Map([['demo', store]]), serving) : undefined
    if (served !== undefined) view.onStep(`The dashboard is at ${served.url}`)
    const finish = async (done: DemoReport) => {
      view.end()
      showSummary(output, done, { store, broker: broker.address })
      if (served === undefined) return
      output.line('The dashboard stays until Ctrl-C; then the data of the demo is removed.')
      if (!signal.aborted) await once(signal, 'abort')
    }
    const report = await demo({ ...view, orders, store, broker, topics, signal, beforeRemoval: finish })
    return report.lost === 0 && report.applied_twice === 0 ? exitCode.ok : exitCode.failed
  } finally {
    view.end()
  }
}
