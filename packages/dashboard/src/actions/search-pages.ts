import type { Runtime } from '@ackord/core'
import type { OutboxAdmin, OutboxFilter, OutboxPage } from '@ackord/outbox'

/** Milliseconds after which a search ends: a person waits for its result. */
const searchTime = 1000

/** The pages of a search, without payloads unless asked for. The last one has a `next` if the search took too long, or the caller has left it. */
export async function* searchPages(
  admin: Pick<OutboxAdmin, 'list'>,
  filter: OutboxFilter,
  { limit, payloads = false, runtime }: { readonly limit: number; readonly payloads?: boolean; readonly runtime: Runtime },
): AsyncGenerator<OutboxPage, void, void> {
  const startedAt = runtime.monotonic()
  let after: string | undefined
  do {
    const page = await admin.list(filter, { limit, after, payloads })
    yield page
    after = page.next
  } while (after !== undefined && runtime.monotonic() - startedAt < searchTime)
}
