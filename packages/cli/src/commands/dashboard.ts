import { once } from 'node:events'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { exitCode, usageError } from '../output/errors.ts'
import { type DashboardOptions, serveDashboard } from '../serving/dashboard-server.ts'
import { minTokenLength } from '../serving/token-gate.ts'
import type { Execute, Session } from '../session.ts'
import { deliveryLimitOption } from '../settings/delivery-limit.ts'
import { parseUrls } from '../settings/named-urls.ts'
import { byOption, operatorOf } from '../settings/operator.ts'
import { addStoreOptions, newCommand, parseInteger, setting, storeUrls } from '../settings/settings.ts'

const brokerUrls = 'amqp://, amqp10://, nats://, kafka://, redis:// or redis+cluster://'

interface DashboardCommandOptions extends Omit<DashboardOptions, 'stores' | 'brokers' | 'deadLetters'> {
  readonly store?: readonly string[] | undefined
  readonly broker?: readonly string[] | undefined
  readonly deadLetters?: readonly string[] | undefined
}

export function dashboardCommand(execute: Execute): Command {
  return addStoreOptions(
    newCommand('dashboard').addOption(
      setting('--store <url>', `${storeUrls}; repeatable, and with a name: orders=postgres://…`, { parse: parseUrls }),
    ),
  )
    .addOption(
      setting('--broker <url>', `${brokerUrls}, which has dead letters, and is checked by the doctor; repeatable, and with a name`, {
        parse: parseUrls,
      }),
    )
    .option(
      '--dead-letters <destination>',
      'a queue, subject, topic or stream with dead letters; repeatable; of several brokers: broker=destination',
      parseDestinations,
    )
    .option('--group <name>', 'the group whose offset marks the letters that are done (Kafka)', 'ackord-dead-letters')
    .addOption(deliveryLimitOption())
    .description(
      'Serves a web page that shows the outboxes, finds messages, re-arms, edits, discards and pauses, and replays dead letters.',
    )
    .option('--port <port>', 'the port; 0: any free one', parseInteger(0, 65_535), 8088)
    .option('--host <address>', 'the address to listen on; another one than the default requires --token', '127.0.0.1')
    .addOption(
      setting(
        '--token <text>',
        `the token that lets people in, of at least ${minTokenLength} characters (default: one that is valid once)`,
        {
          parse: parseToken,
        },
      ),
    )
    .addOption(byOption())
    .addOption(
      new Option('--user-header <name>', 'the header in which a proxy names its user, for the audit; requires --token')
        .argParser(parseHeader)
        .conflicts('by'),
    )
    .option('--read-only', 'offer no actions')
    .option('--trace-url <template>', 'a link to a trace, such as https://grafana/explore?trace={traceId}')
    .action(execute(serve, { stopsItself: true }))
}

/** Repeatable. Not separated by commas: names of queues may contain them. */
function parseDestinations(text: string, previous: unknown): readonly string[] {
  if (text === '') throw new InvalidArgumentError('It must be a non-empty name.')
  return parseUrls(text, previous)
}

function parseToken(text: string): string {
  if (text === '' || text.length >= minTokenLength) return text
  throw new InvalidArgumentError(`It must have at least ${minTokenLength} characters.`)
}

function parseHeader(text: string): string {
  if (/^[\w-]+$/.test(text) && !['authorization', 'cookie', 'host'].includes(text.toLowerCase())) return text
  throw new InvalidArgumentError('It must be the name of a header that the proxy sets, such as X-Forwarded-User.')
}

async function serve(session: Session, { store = [], broker = [], deadLetters = [], ...options }: DashboardCommandOptions): Promise<0> {
  if (store.length === 0) throw usageError('--store is missing.', `Pass it, set ACKORD_STORE, or set 'store' in ackord.config.ts.`)
  await using served = await serveDashboard(session, { ...options, by: operatorOf(options), stores: store, brokers: broker, deadLetters })
  const { output, signal } = session
  output.object({ url: served.url })
  output.line(`The dashboard is at ${served.url}`)
  if (broker.length > 0 && deadLetters.length === 0)
    output.line('Only the doctor uses the broker: add --dead-letters to show its dead letters.')
  output.line('Ctrl-C ends it.')
  if (!signal.aborted) await once(signal, 'abort')
  return exitCode.ok
}
