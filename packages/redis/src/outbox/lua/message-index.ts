import { asList } from '../../client/reply.ts'
import { type LuaOutboxContext, runOn } from './context.ts'
import { type LuaShard, maxOrigins } from './layout.ts'
import { originOf, readBody, recordId, recordIdAt } from './record-body.ts'
import { addEditedScript, completeOriginsScript, originsScript } from './scripts/message-index.ts'

// The index of message ids costs almost nothing per record: the id of a record is a digest of its origin (destination and source) and its message id, and there are few
// origins. So it is enough to know the origins. `meta` counts the records of each that were stored. What the counts do not explain of `seq` was stored by a version without
// the index, or when there were too many origins: then the index is incomplete until it has been built, which reads all records once. Records that an operator has
// edited, so that their id is no longer the digest, are in `edited`.

/** How many records one call reads. */
const pageSize = 100
const editedPageSize = 1000

interface Origins {
  readonly isComplete: boolean
  /** How many records were stored that are not counted. */
  readonly uncounted: string
  readonly hasEdited: boolean
  /** With the number of records that were ever stored. */
  readonly counts: ReadonlyMap<string, string>
}

/** The ids of all records of a shard that may have this message id. `undefined`: the index cannot be used, because versions without it store records, or there are too many origins. */
export async function idsWithMessage(
  context: LuaOutboxContext,
  shard: LuaShard,
  messageId: string,
): Promise<ReadonlySet<string> | undefined> {
  let origins = await readOrigins(context, shard)
  if (!origins.isComplete) {
    if (!(await buildIndex(context, shard, origins))) return undefined
    origins = await readOrigins(context, shard)
    if (!origins.isComplete) return undefined
  }
  const ids = new Set(Array.from(origins.counts.keys(), (origin) => recordIdAt(origin, messageId)))
  if (origins.hasEdited) {
    for await (const [id, own] of fieldsOf(context, shard.key('edited'), editedPageSize)) if (String(own) === messageId) ids.add(String(id))
  }
  return ids
}

/** The message id of a record that is edited, if the index does not find it by its origin; otherwise ''. */
export function editedMessageId(id: string, reference: Parameters<typeof recordId>[0]): string {
  return recordId(reference) === id ? '' : reference.id
}

async function readOrigins(context: LuaOutboxContext, shard: LuaShard): Promise<Origins> {
  const [isComplete, uncounted, edited, found] = asList(await runOn(context, shard, originsScript, []))
  const words = asList(found).map(String)
  const counts = new Map<string, string>()
  for (let at = 0; at < words.length; at += 2) counts.set(words[at] as string, words[at + 1] as string)
  return { isComplete: String(isComplete) === '1', uncounted: String(uncounted), hasEdited: Number(edited) > 0, counts }
}

/** Reads all records, once. Resolves to whether the index is complete. */
async function buildIndex(context: LuaOutboxContext, shard: LuaShard, { uncounted, counts }: Origins): Promise<boolean> {
  const origins = new Set<string>()
  let edited: string[] = []
  const addEdited = async (): Promise<void> => {
    if (edited.length > 0) await runOn(context, shard, addEditedScript, edited)
    edited = []
  }
  for await (const [id, body] of fieldsOf(context, shard.key('entries'), pageSize)) {
    const { destination, message, problem } = readBody(body)
    // A record that cannot be read has no message id.
    if (problem !== undefined) continue
    const { source, id: messageId } = message.attributes
    const reference = { destination, source: String(source), id: String(messageId) }
    if (editedMessageId(String(id), reference) === '') origins.add(originOf(destination, reference.source))
    else if (edited.push(String(id), reference.id) >= editedPageSize) await addEdited()
    if (origins.size > maxOrigins) return false
  }
  await addEdited()
  const unused = [...counts].filter(([origin]) => !origins.has(origin)).flat()
  return Number(await runOn(context, shard, completeOriginsScript, [uncounted, String(origins.size), ...origins, ...unused])) === 1
}

/** The fields of a hash with their values. A field may come twice. */
async function* fieldsOf({ port }: LuaOutboxContext, key: string, count: number): AsyncGenerator<readonly [Buffer, Buffer], void, void> {
  let cursor = '0'
  do {
    const reply = await port.send({ name: 'HSCAN', args: [key, cursor, 'COUNT', String(count)], keys: [0] }, { binary: true })
    const [next, fields] = asList(reply)
    cursor = String(next)
    const words = asList(fields) as readonly Buffer[]
    for (let at = 0; at < words.length; at += 2) yield [words[at] as Buffer, words[at + 1] as Buffer]
  } while (cursor !== '0')
}
