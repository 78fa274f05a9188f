import { hash } from 'node:crypto'
import { InvalidOptionError } from '@ackord/core'

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The bytes of a UUID. */
export function namespaceBytes(namespace: string): Buffer {
  if (typeof namespace === 'string' && form.test(namespace)) return Buffer.from(namespace.replaceAll('-', ''), 'hex')
  throw new InvalidOptionError('namespace', `must be a UUID, such as '7c0f3a6e-2b5d-4e1f-9a8b-6c4d2e0f1a3b'; it is '${namespace}'.`)
}

/** UUIDv3 of `subject|dueAt`: whoever decides on an expiry, and however often, its event has the same id. */
export function expiryId(namespace: Buffer, subject: string, dueAt: number): string {
  const bytes = Buffer.from(hash('md5', Buffer.concat([namespace, Buffer.from(`${subject}|${dueAt}`)]), 'hex'), 'hex')
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x30, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
