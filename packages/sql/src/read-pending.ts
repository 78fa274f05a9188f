import type { NewOutboxRecord, OutboxAdmin } from '@ackord/outbox'
import type { StorePort } from './store-dialect.ts'

const pageSize = 500

/** What is in the outbox and not done, as one transaction sees it: by the operators' own statements, run on its handle. */
export async function readPending(
  port: StorePort,
  transaction: unknown,
  administrationOf: (port: StorePort) => OutboxAdmin,
): Promise<readonly NewOutboxRecord[]> {
  const { driver } = port
  const inside: StorePort['driver'] = {
    ...driver,
    pool: transaction,
    run: (_, sql, parameters, options) => driver.run(transaction, sql, parameters, options),
  }
  const administration = administrationOf({ ...port, driver: inside })
  const found: NewOutboxRecord[] = []
  let after: string | undefined
  do {
    const page = await administration.list({}, { limit: pageSize, after })
    for (const { state, destination, message } of page.records) {
      if (state !== 'parked' && state !== 'published') found.push({ destination, message })
    }
    after = page.next
  } while (after !== undefined)
  return found
}
