import { Message, type Source } from '@ackord/core'
import type { Lifeline } from './lifeline.ts'

/** The source, whose verdicts do not reach the broker once the line is cut: it will deliver those messages again. */
export function crashableSource(source: Source, lifeline: Lifeline, onAcked: () => void): Source {
  return {
    async *messages(options) {
      for await (const message of source.messages(options)) {
        const { data, attributes, deliveryCount } = message
        const acking = {
          async ack() {
            lifeline.checkVerdict()
            await message.ack()
            onAcked()
          },
          async nack(error: unknown, nackOptions: { readonly retryAfter?: number | undefined }) {
            lifeline.checkVerdict()
            await message.nack(error, nackOptions)
          },
          async reject(error: unknown) {
            lifeline.checkVerdict()
            await message.reject(error)
          },
        }
        yield new Message(data, attributes, { acking, deliveryCount })
      }
    },
  }
}
