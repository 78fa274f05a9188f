import { AckordError, parseMessage, type RawMessage } from '@ackord/core'
import { structuredContentType } from '@ackord/core/broker'
import { endOfValue } from '@ackord/core/internal'

/** How the events of a request are written. `unknown`: CloudEvents in an unsupported format. */
export type ContentMode = 'binary' | 'structured' | 'batch' | 'unknown'

export const batchType = 'application/cloudevents-batch+json'

/** The mode according to the content type; `binary` if it is not one of CloudEvents. */
export function contentMode(contentType: string | null): ContentMode {
  const [type = '', ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (!type.startsWith('application/cloudevents')) return 'binary'
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length)
  if (charset !== undefined && !/^"?(utf-8|utf8|us-ascii)"?$/.test(charset)) return 'unknown'
  if (type === structuredContentType) return 'structured'
  return type === batchType ? 'batch' : 'unknown'
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads a batch of structured events, each from its own text, so that no number is rounded, and one after the other: a batch that is refused is not read to
 * its end. Throws `ACKORD_INVALID_MESSAGE`, or the error of an invalid event.
 */
export function* parseBatch(body: Uint8Array): Generator<RawMessage> {
  let json: string
  let events: unknown
  try {
    json = utf8.decode(body)
    events = JSON.parse(json)
  } catch {
    // Without the cause, which quotes the body.
    throw invalid('it is not JSON in UTF-8')
  }
  if (!Array.isArray(events)) throw invalid('it is JSON, but not an array')
  if (events.length > 0) for (const text of elementTexts(json)) yield parseMessage(text)
}

/** The text of each element of an array. The JSON must be valid, and its array not empty. */
function* elementTexts(json: string): Generator<string> {
  // Not a regular expression: a repeated group overflows the stack at some megabytes of text.
  for (let start = json.indexOf('[') + 1; ; ) {
    const end = endOfValue(json, start)
    yield json.slice(start, end)
    if (json[end] !== ',') return
    start = end + 1
  }
}

function invalid(problem: string): AckordError {
  return new AckordError('ACKORD_INVALID_MESSAGE', `Cannot read the batch: ${problem}.`, { retryable: false })
}
