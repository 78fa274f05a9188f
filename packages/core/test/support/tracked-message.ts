import type { NackOptions } from '../../src/message/acking.ts'
import type { Attributes } from '../../src/message/attributes.ts'
import { Message } from '../../src/message/message.ts'

export interface AckRecord {
  readonly verdict: 'ack' | 'nack' | 'reject'
  readonly error?: unknown
  readonly options?: NackOptions
}

/** A message whose verdicts are recorded as the broker would see them. */
export function trackedMessage<T>(
  data: T,
  attributes: Attributes = {},
  options: { readonly deliveryCount?: number; readonly answer?: () => void | Promise<void> } = {},
): { readonly message: Message<T>; readonly calls: AckRecord[] } {
  const calls: AckRecord[] = []
  const { answer = () => {} } = options
  const message = new Message(data, attributes, {
    deliveryCount: options.deliveryCount,
    acking: {
      ack() {
        calls.push({ verdict: 'ack' })
        return answer()
      },
      nack(error, nackOptions) {
        calls.push({ verdict: 'nack', error, options: nackOptions })
        return answer()
      },
      reject(error) {
        calls.push({ verdict: 'reject', error })
        return answer()
      },
    },
  })
  return { message, calls }
}
