import { Message, type RawMessage } from '@ackord/core'
import type { Row } from './driver.ts'
import { attributesFromJson } from './outbox-row.ts'

/** The message of a row. Where its attributes cannot be read, it has those that have a column, and `problem` says so. */
export function readMessage(row: Row): { readonly message: RawMessage; readonly problem: string | undefined } {
  const data = bytesOf(row['data'])
  const attributes = attributesFromJson(String(row['attributes']))
  if (attributes !== undefined) return { message: new Message(data, attributes), problem: undefined }
  const message = new Message(data, { id: String(row['id']), type: String(row['type']) })
  return { message, problem: 'its attributes are not the JSON of an object with texts, numbers and booleans.' }
}

/** Not the driver's own kind of bytes, which may be a view of a large shared buffer with methods of its own. */
function bytesOf(value: unknown): Uint8Array {
  if (!(value instanceof Uint8Array)) throw new TypeError('A driver gave something else than bytes for a column of bytes.')
  return value.constructor === Uint8Array ? value : new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}
