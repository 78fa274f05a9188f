import { type Logger, silentLogger } from '@ackord/core'
import type { OutboxAdmin } from '@ackord/outbox'
import { type ExitCode, exitCode } from '../output/errors.ts'
import type { Session } from '../session.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import { watch } from './watch.ts'

/** The options of a command with `--watch`. */
export interface WatchedOptions extends StoreOptions {
  /** Milliseconds. Default: the command shows its result once. */
  readonly watch?: number | undefined
}

/** How a command reads an outbox, and how it shows the result. */
export interface StoreView<T> {
  /** The logger is for what a person should know while it reads. */
  readonly read: (outbox: OutboxAdmin, address: string, logger: Logger) => Promise<T>
  /** For programs. */
  readonly object: (value: T) => object
  /** For people. `before`: the value of the previous refresh, with `--watch`. */
  readonly lines: (value: T, before: T | undefined) => readonly string[]
}

/** Shows the result once, or again and again with `--watch`. */
export async function showOrWatch<T>(session: Session, options: WatchedOptions, view: StoreView<T>): Promise<ExitCode> {
  const { output } = session
  if (options.watch !== undefined) return await watchStore(session, { ...options, watch: options.watch }, view)
  await using store = await openStoreOf(options, session)
  const logger = output.logger()
  const value = await view.read(store.outbox({ logger }), store.address, logger)
  output.object(view.object(value))
  if (!output.json) for (const line of view.lines(value, undefined)) output.line(line)
  return exitCode.ok
}

async function watchStore<T>(
  session: Session,
  options: WatchedOptions & { readonly watch: number },
  { read, object, lines }: StoreView<T>,
): Promise<ExitCode> {
  // A log line would break the screen. It shows the error of a refresh instead.
  const logger = session.output.redraws ? silentLogger : session.output.logger()
  return await watch<T>(session, {
    interval: options.watch,
    async open() {
      const store = await openStoreOf(options, session, { logger })
      const outbox = store.outbox({ logger })
      return {
        address: store.address,
        read: () => read(outbox, store.address, logger),
        [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
      }
    },
    show: (value, before) => ({ object: object(value), lines: () => lines(value, before) }),
  })
}

/** For `execute()`: with `--watch` the terminal has to be restored before the command ends. */
export function stopsItself({ watch: interval }: WatchedOptions): boolean {
  return interval !== undefined
}
