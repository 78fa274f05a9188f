import { createHash } from 'node:crypto'

const hour = 3_600_000

/**
 * The key of an object of `claimCheck()`: the prefix, the hour in which it is stored (UTC), and the name, such as `orders/2026-11-19T07-<32 digits>-<64 digits>`.
 * Because of the hour, a later attempt of the message does not store its object under the key of an old one, which `collectObjects()` may be about to delete.
 */
export function claimKey(keyPrefix: string, now: number, name: string): string {
  return `${keyPrefix}${new Date(now).toISOString().slice(0, 13)}-${name}`
}

/** Depends on source and id, so that a reference cannot be copied to another message, and on the content, so that no object changes. */
export function claimName(source: string, id: string, sha256: string): string {
  const identity = createHash('sha256')
    .update(JSON.stringify([source, id]))
    .digest('hex')
  return `${identity.slice(0, 32)}-${sha256}`
}

/** Also matches the file that a crash of `fileObjects()` leaves. */
const pattern = /(\d{4}-\d\d-\d\dT\d\d)-[0-9a-f]{32}-[0-9a-f]{64}(?:\.[0-9a-f-]{36}\.part)?$/

/** The instant from which on no message stores an object under the key; `undefined` for a name that `claimCheck()` has not chosen. */
export function endOfClaimKey(key: string): number | undefined {
  const [, startHour] = pattern.exec(key) ?? []
  // Date.parse() would read other texts as dates, too.
  if (startHour === undefined) return undefined
  const start = Date.parse(`${startHour}:00Z`)
  return Number.isNaN(start) ? undefined : start + hour
}
