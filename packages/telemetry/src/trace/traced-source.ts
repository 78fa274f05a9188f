import type { RawMessage, Source } from '@ackord/core'
import { Operations } from './operations.ts'
import { type Processing, setProcessing } from './processing.ts'
import type { Tracing } from './tracing.ts'
import { wrap } from './wrap.ts'

/** Counts the messages of a source, and tells their spans which broker they came from. Waiting for messages has no span. */
export function tracedSource<S extends Source>(source: S, { metrics }: Tracing): S {
  const operations = new Operations('receive', 'receive')
  const delivered: Processing = { broker: source }

  function note(result: IteratorResult<RawMessage>): IteratorResult<RawMessage> {
    if (result.done === true) return result
    const message = result.value
    setProcessing(message, delivered)
    if (metrics.isOn()) metrics.count('consumedMessages', 1, operations.on(message.origin, source).attributes)
    return result
  }

  // Not an async generator: it would add half a dozen promises to each message.
  function messages(options: { readonly signal: AbortSignal }): AsyncIterable<RawMessage> {
    const iterable = source.messages(options)
    return {
      [Symbol.asyncIterator]() {
        const iterator = iterable[Symbol.asyncIterator]()
        return {
          next: () => iterator.next().then(note),
          ...(iterator.return === undefined ? {} : { return: (value) => iterator.return?.(value) as Promise<IteratorResult<RawMessage>> }),
        }
      },
    }
  }

  return wrap<Source>(source, { messages }) as S
}
