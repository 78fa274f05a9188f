import { AckordError, parseMessage, type RawMessage } from '@ackord/core'

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Reads a batch of structured events, each from its own text, so that no number is rounded. Throws `ACKORD_INVALID_MESSAGE`, or what is wrong with an event. */
export function parseBatch(body: Uint8Array): RawMessage[] {
  let json: string
  let events: unknown
  try {
    json = utf8.decode(body)
    events = JSON.parse(json)
  } catch {
    // Without its cause, which quotes the body.
    throw invalid('it is not JSON in UTF-8')
  }
  if (!Array.isArray(events)) throw invalid('it is JSON, but not an array')
  return events.length === 0 ? [] : elementTexts(json).map((text) => parseMessage(text))
}

/** The elements of an array as they stand in the JSON, which must be known to parse, and to an array that is not empty. */
function elementTexts(json: string): string[] {
  const texts: string[] = []
  let depth = 0
  let start = json.indexOf('[') + 1
  for (const { 0: mark, index } of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},]/g)) {
    if (mark === '[' || mark === '{') depth += 1
    else if (mark === ']' || mark === '}') depth -= 1
    if ((mark === ',' && depth === 1) || depth === 0) {
      texts.push(json.slice(start, index))
      start = index + 1
    }
  }
  return texts
}

function invalid(problem: string): AckordError {
  return new AckordError('ACKORD_INVALID_MESSAGE', `Cannot read the batch: ${problem}.`, { retryable: false })
}
