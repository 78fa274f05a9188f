import type { Attributes } from '@ackord/core'
import type { NewOutboxRecord, OutboxReference } from '@ackord/outbox'
import type { QueuedCommand } from '../../client/queued-command.ts'
import { asList } from '../../client/reply.ts'
import { readFields } from '../record-fields.ts'
import type { OutboxHome } from './context.ts'
import type { Lane } from './destination-stream.ts'
import { cancelFragment } from './scripts/cancel-fragment.ts'

/** How many entries one read brings. */
const pageSize = 100

const keyPlaces: readonly number[] = [0, 1, 2, 3, 4, 5]

/** The delayed records that queued commands store, so that a later `cancel()` of the same transaction finds them. */
const delayed = new WeakMap<QueuedCommand, { readonly stream: string; readonly attributes: Attributes }>()

/** Returns the command. */
export function rememberDelayed(command: QueuedCommand, stream: string, { message, delay = 0 }: NewOutboxRecord): QueuedCommand {
  if (delay > 0) delayed.set(command, { stream, attributes: message.attributes })
  return command
}

/**
 * The command that lets a commit cancel these records of a lane, and how many stored ones it found. Reads the whole stream of the lane, a page at a time; whether an entry still
 * waits is for the commit to see.
 */
export async function cancelCommand(
  home: OutboxHome,
  lane: Lane,
  references: readonly OutboxReference[],
): Promise<{ readonly command: QueuedCommand; readonly found: number }> {
  const isNamed = ({ source, id }: Attributes) => references.some((one) => one.source === source && one.id === id)
  const { stream } = lane.keys
  const entries: string[] = []
  for await (const { entry, due, attributes } of entriesOf(home, stream)) if (isNamed(attributes)) entries.push(entry, String(due))
  const command: QueuedCommand = {
    name: 'cancel()',
    args: [...lane.allKeys, home.group, ...entries],
    keys: keyPlaces,
    kind: cancelFragment,
    cancels(event) {
      const own = delayed.get(event)
      return own !== undefined && own.stream === stream && isNamed(own.attributes)
    },
  }
  return { command, found: entries.length / 2 }
}

interface StoredEntry {
  readonly entry: string
  /** When its delay ends. */
  readonly due: number
  readonly attributes: Attributes
}

async function* entriesOf({ port, codec }: OutboxHome, stream: string): AsyncGenerator<StoredEntry, void, void> {
  for (let last: string | undefined; ; ) {
    const args = [stream, last ?? '-', '+', 'COUNT', String(pageSize)]
    const page = asList(await port.send({ name: 'XRANGE', args, keys: [0] }, { binary: true }))
    const before = last
    for (const one of page) {
      const [id, fields] = one as readonly [Buffer, readonly Buffer[]]
      last = String(id)
      // The first entry of a page is the last of the page before: not all servers know a range without its start.
      if (last === before) continue
      const { message, problem, delay } = readFields(fields, codec)
      if (problem === undefined)
        yield { entry: last, due: Number(last.slice(0, last.indexOf('-'))) + delay, attributes: message.attributes }
    }
    if (page.length < pageSize) return
  }
}
