import type { Attributes } from '@ackord/core'
import type { NewOutboxRecord, OutboxReference } from '@ackord/outbox'
import type { QueuedCommand } from '../../client/queued-command.ts'
import { asList } from '../../client/reply.ts'
import { readFields } from '../record-fields.ts'
import type { StreamOutboxContext } from './context.ts'
import type { DestinationStream } from './destination-stream.ts'
import { cancelFragment } from './scripts/cancel-fragment.ts'

/** How many entries one call reads. */
const pageSize = 100

const keyIndexes: readonly number[] = [0, 1, 2, 3, 4, 5]

/** The delayed records that queued commands store, so that a later `cancel()` of the same transaction finds them. */
const delayed = new WeakMap<QueuedCommand, { readonly streamKey: string; readonly attributes: Attributes }>()

/** Returns the command. */
export function rememberDelayed(command: QueuedCommand, streamKey: string, { message, delay = 0 }: NewOutboxRecord): QueuedCommand {
  if (delay > 0) delayed.set(command, { streamKey, attributes: message.attributes })
  return command
}

/**
 * The command that cancels these records of a destination in the commit, and the number of stored ones that it found. Reads the whole stream, a page at a time; the commit
 * checks whether an entry still waits.
 */
export async function cancelCommand(
  context: StreamOutboxContext,
  stream: DestinationStream,
  references: readonly OutboxReference[],
): Promise<{ readonly command: QueuedCommand; readonly found: number }> {
  const isNamed = ({ source, id }: Attributes) => references.some((one) => one.source === source && one.id === id)
  const streamKey = stream.keys.entries
  const entries: string[] = []
  for await (const { entry, due, attributes } of entriesOf(context, streamKey)) if (isNamed(attributes)) entries.push(entry, String(due))
  const command: QueuedCommand = {
    name: 'cancel()',
    args: [...stream.allKeys, context.group, ...entries],
    keys: keyIndexes,
    kind: cancelFragment,
    cancels(event) {
      const own = delayed.get(event)
      return own !== undefined && own.streamKey === streamKey && isNamed(own.attributes)
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

/** All entries of a stream that can be read. */
export async function* entriesOf({ port, codec }: StreamOutboxContext, streamKey: string): AsyncGenerator<StoredEntry, void, void> {
  for (let last: string | undefined; ; ) {
    const args = [streamKey, last ?? '-', '+', 'COUNT', String(pageSize)]
    const page = asList(await port.send({ name: 'XRANGE', args, keys: [0] }, { binary: true }))
    const before = last
    for (const one of page) {
      const [id, fields] = one as readonly [Buffer, readonly Buffer[]]
      last = String(id)
      // The first entry of a page is the last of the page before: older servers have no exclusive ranges.
      if (last === before) continue
      const { message, problem, delay } = readFields(fields, codec)
      if (problem === undefined)
        yield { entry: last, due: Number(last.slice(0, last.indexOf('-'))) + delay, attributes: message.attributes }
    }
    if (page.length < pageSize) return
  }
}
