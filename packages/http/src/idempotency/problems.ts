import type { StoredAnswer } from '@ackord/outbox'

/** The answers of the engine itself, as problem details (RFC 9457). They are never stored. */
interface Problem {
  readonly name: string
  readonly title: string
  readonly status: number
  readonly detail: string
  /** Seconds. */
  readonly retryAfter?: number | undefined
}

export function keyMissing(header: string): StoredAnswer {
  return problem({
    name: 'idempotency-key-missing',
    title: 'The idempotency key is missing',
    status: 400,
    detail: `This operation requires the header ${header}. Send a value that is unique to the request, such as a UUID, and the same value when you send the request again.`,
  })
}

export function keyMalformed(header: string): StoredAnswer {
  return problem({
    name: 'idempotency-key-malformed',
    title: 'The idempotency key is malformed',
    status: 400,
    detail: `The value of the header ${header} must be 1 to 255 visible ASCII characters, with or without double quotes around them.`,
  })
}

export function bodyTooLarge(maxBodySize: number): StoredAnswer {
  return problem({
    name: 'body-too-large',
    title: 'The body is too large',
    status: 413,
    detail: `The body of the request is larger than ${maxBodySize} bytes.`,
  })
}

export function requestRunning(retryAfter: number): StoredAnswer {
  return problem({
    name: 'request-in-progress',
    title: 'The request is being processed',
    status: 409,
    detail: 'A request with this idempotency key is being processed. Send the request again later to get its answer.',
    retryAfter,
  })
}

export function requestTakenOver(): StoredAnswer {
  return problem({
    name: 'request-in-progress',
    title: 'The request is being processed',
    status: 409,
    detail:
      'The request took too long, and another request with this idempotency key has taken over. Send the request again later to get its answer.',
    retryAfter: 1,
  })
}

export function keyReused(): StoredAnswer {
  return problem({
    name: 'idempotency-key-reused',
    title: 'The idempotency key was used for another request',
    status: 422,
    detail:
      'This idempotency key was sent before with another request: its method, URL or body was different. Use a new key for a new request.',
  })
}

function problem({ name, title, status, detail, retryAfter }: Problem): StoredAnswer {
  const content = { type: `urn:ackord:problem:${name}`, title, status, detail }
  return {
    status,
    headers: [
      ['content-type', 'application/problem+json'],
      ...(retryAfter === undefined ? [] : [['retry-after', String(retryAfter)] as const]),
    ],
    body: new TextEncoder().encode(JSON.stringify(content)),
  }
}
