import type { RawMessage } from '@ackord/core'
import { describeValue } from '@ackord/core/internal'
import type { MapRecord, RelayRecord } from '../options/relay-events.ts'

/** A message to publish, and the destination's name at the broker. */
export interface Mapped {
  readonly name: string
  readonly message: RawMessage
}

/** What `map` makes of a record. Throws if that cannot be published. */
export function mapRecord(record: RelayRecord, map: MapRecord | undefined): Mapped {
  const result = map?.(record)
  // A promise would look like a result that changes nothing.
  if (result !== undefined && (typeof result !== 'object' || result === null || 'then' in result)) {
    throw new TypeError(`it must return { destination, message } or undefined, and returned ${describeValue(result)}`)
  }
  const { destination: name = record.destination, message = record.message } = result ?? {}
  if (typeof name !== 'string' || name === '')
    throw new TypeError(`the destination must be a non-empty string, and is ${describeValue(name)}`)
  if (!(message?.data instanceof Uint8Array)) throw new TypeError('the message must have bytes as its data')
  // Consumers recognise a duplicate by its id.
  if (message.id !== record.message.id) throw new TypeError('the message must keep its id')
  return { name, message }
}
