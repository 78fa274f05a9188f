import { once } from 'node:events'
import type { Command } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import { type DashboardOptions, serveDashboard } from '../serving/dashboard-server.ts'
import type { Execute, Session } from '../session.ts'
import { addStoreOptions, newCommand, parseInteger, setting, storeUrls } from '../settings/settings.ts'

interface DashboardCommandOptions extends Omit<DashboardOptions, 'stores'> {
  readonly store?: readonly string[] | undefined
}

export function dashboardCommand(execute: Execute): Command {
  return addStoreOptions(
    newCommand('dashboard').addOption(
      setting('--store <url>', `${storeUrls}; repeatable, and with a name: orders=postgres://…`, { parse: parseStores }),
    ),
  )
    .description('Serves a web page that shows the outboxes, finds messages, and re-arms, edits, discards and pauses.')
    .option('--port <port>', 'the port; 0: any free one', parseInteger(0, 65_535), 8088)
    .option('--host <address>', 'the address to listen on; another one than the default requires --token', '127.0.0.1')
    .addOption(setting('--token <text>', 'the token that lets people in (default: the command prints a token that is valid once)'))
    .option('--read-only', 'offer no actions')
    .option('--trace-url <template>', 'a link to a trace, such as https://grafana/explore?trace={traceId}')
    .action(execute(serve, { stopsItself: true }))
}

/** Repeatable. Not separated by commas: the URL of a Redis Cluster has commas between its nodes. */
function parseStores(text: string, previous: unknown): readonly string[] {
  return [...(Array.isArray(previous) ? (previous as string[]) : []), text]
}

async function serve(session: Session, { store = [], ...options }: DashboardCommandOptions): Promise<0> {
  if (store.length === 0) throw usageError('--store is missing.', `Pass it, set ACKORD_STORE, or set 'store' in ackord.config.ts.`)
  await using served = await serveDashboard(session, { ...options, stores: store })
  const { output, signal } = session
  output.object({ url: served.url })
  output.line(`The dashboard is at ${served.url}`)
  output.line('Ctrl-C ends it.')
  if (!signal.aborted) await once(signal, 'abort')
  return exitCode.ok
}
