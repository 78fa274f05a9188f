import { entriesOf } from './cancel-entries.ts'
import type { StreamOutboxContext } from './context.ts'
import type { DestinationStream } from './destination-stream.ts'
import { beginIndex, completeIndex, indexEntries, sweepIndex } from './scripts/index-scripts.ts'

/** How many entries one script reads or adds: other clients wait meanwhile. */
const pageSize = 100

/**
 * Completes the index of message ids: reads all entries, once. It stays incomplete if stores without the index add entries meanwhile, the server is older than Redis 7.0
 * or refuses a command, or too many entries have the same message id.
 */
export async function buildIndex(context: StreamOutboxContext, stream: DestinationStream): Promise<void> {
  try {
    await build(context, stream)
  } catch {
    // A user or a replica that may only read can search nevertheless. A server that does not answer is reported by the search.
  }
}

async function build(context: StreamOutboxContext, stream: DestinationStream): Promise<void> {
  const { port } = context
  const lacks = String(await port.evaluate(beginIndex, stream.allKeys, []))
  if (lacks === '') return
  for (let cursor: string | undefined; cursor !== '0'; ) {
    cursor = String(await port.evaluate(sweepIndex, stream.allKeys, [cursor ?? '0', String(pageSize)]))
  }
  let page: string[] = []
  const addPage = async (): Promise<boolean> => {
    const isAdded = page.length === 0 || Number(await port.evaluate(indexEntries, stream.allKeys, page)) === 1
    page = []
    return isAdded
  }
  for await (const { entry, attributes } of entriesOf(context, stream.keys.entries)) {
    if (page.push(entry, String(attributes.id)) >= 2 * pageSize && !(await addPage())) return
  }
  if (await addPage()) await port.evaluate(completeIndex, stream.allKeys, [lacks])
}
