import { AckordError, type Attributes, checkAttributes, missingAttributes, parseMessage } from '@ackord/core'
import { readHeaders } from './attribute-headers.ts'
import type { ContentMode } from './content-mode.ts'
import { parseBatch } from './json-batch.ts'

/** A request as hooks see it, its body read. */
export interface HttpRequest {
  readonly url: string
  readonly headers: Headers
  readonly body: Uint8Array
}

/** What a message is made of. */
export interface EventContent {
  readonly data: Uint8Array
  readonly attributes: Attributes
}

/** The events of a request. Throws, with what is wrong, at what cannot be read. */
export function readEvents(request: HttpRequest, mode: Exclude<ContentMode, 'unknown'>): readonly EventContent[] {
  if (mode === 'binary') return [complete({ data: request.body, attributes: readHeaders(request.headers) ?? {} })]
  if (mode === 'batch') return parseBatch(request.body).map(complete)
  return [complete(parseMessage(request.body))]
}

/** The one event of a request that is no CloudEvent. */
export function readForeign(request: HttpRequest, attributes: (request: HttpRequest) => Attributes): EventContent {
  const given = attributes(request)
  if (typeof given !== 'object' || given === null) throw invalid('ACKORD_INVALID_ATTRIBUTES', "The option 'attributes' gave no attributes.")
  checkAttributes(given, 'the request', { retryable: false })
  return { data: request.body, attributes: given }
}

function complete({ data, attributes }: EventContent): EventContent {
  checkAttributes(attributes, 'the event', { retryable: false })
  const missing = missingAttributes(attributes)
  if (missing.length > 0) throw invalid('ACKORD_MISSING_ATTRIBUTE', `The event lacks ${missing.map((name) => `'${name}'`).join(', ')}.`)
  const { specversion } = attributes
  if (specversion === undefined || !/^1\.\d+$/.test(specversion)) throw invalid('ACKORD_INVALID_ATTRIBUTES', "'specversion' must be '1.0'.")
  return { data, attributes }
}

function invalid(code: 'ACKORD_MISSING_ATTRIBUTE' | 'ACKORD_INVALID_ATTRIBUTES', text: string): AckordError {
  return new AckordError(code, text, { retryable: false })
}
