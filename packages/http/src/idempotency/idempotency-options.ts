import { consoleLogger, InvalidOptionError, type Logger, type Runtime, systemRuntime } from '@ackord/core'
import { checkCount, checkDuration, checkFunction, checkName, guardLogger, rejectUnknownOptions } from '@ackord/core/internal'
import type { StoredAnswer } from '@ackord/outbox'

export interface IdempotencyOptions<Request> {
  /**
   * Whose keys and for what: the principal, the method and the route, such as `(request) => [request.user.id, 'POST /orders']`. No caller gets an answer of
   * another scope. A request without a scope is an error.
   */
  readonly scope: (request: Request) => string | readonly string[] | Promise<string | readonly string[]>
  /** The header with the key. Default: `idempotency-key`. */
  readonly header?: string | undefined
  /** The methods that need a key; requests with other methods are handled as if there were no idempotency. Default: POST and PATCH. */
  readonly methods?: readonly string[] | undefined
  /** Whether a request without a key is answered with 400; if `false`, it is handled as if there were no idempotency. Default: true. */
  readonly required?: boolean | undefined
  /**
   * Milliseconds after which a request with the same key may take over, because the process that handled the first one must have died. Must be longer than
   * requests take: a request that has lost its claim is rolled back. Default: 1 minute.
   */
  readonly lease?: number | undefined
  /** For how many milliseconds an answer is remembered. Default: 24 hours. */
  readonly retention?: number | undefined
  /** The largest body of an answer, in bytes. A larger one is an error, and everything is rolled back. Default: 262,144 (256 KiB). */
  readonly maxAnswerSize?: number | undefined
  /** The largest body of a request, in bytes, where no parser has read it; then the answer is 413. Default: 1,048,576 (1 MiB). */
  readonly maxBodySize?: number | undefined
  /**
   * Identifies what a request asks for: the same key with another fingerprint is answered with 422. Only a hash of it is stored. Default: the method, the path
   * with its query, and the body.
   */
  readonly fingerprint?: ((request: Request) => string | Uint8Array | Promise<string | Uint8Array>) | undefined
  /**
   * Whether an answer is stored, and the work committed. Otherwise everything is rolled back, and the next request with the key is carried out. Default: all below
   * 500, except for 408, 425 and 429, which ask the client to try again.
   */
  readonly isStored?: ((answer: StoredAnswer) => boolean) | undefined
  /** Default: the console, from `info` up: requests reach these handlers through no router or service that could pass its logger on. */
  readonly logger?: Logger | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** The validated options. */
export type IdempotencySettings<Request> = {
  readonly [Name in Exclude<keyof IdempotencyOptions<Request>, 'fingerprint' | 'methods'>]-?: NonNullable<IdempotencyOptions<Request>[Name]>
} & {
  readonly methods: ReadonlySet<string>
  readonly fingerprint: IdempotencyOptions<Request>['fingerprint']
}

export function idempotencySettings<Request>(owner: string, options: IdempotencyOptions<Request>): IdempotencySettings<Request> {
  const { scope, header = 'idempotency-key', methods = ['POST', 'PATCH'], required = true, lease = 60_000, ...more } = options
  const { retention = 24 * 60 * 60_000, maxAnswerSize = 256 * 1024, maxBodySize = 1024 * 1024, fingerprint, ...rest } = more
  const { isStored = isFinal, logger = consoleLogger, runtime = systemRuntime, ...unknown } = rest
  rejectUnknownOptions(owner, unknown)
  checkFunction('scope', scope)
  checkName('header', header)
  if (!Array.isArray(methods)) throw new InvalidOptionError('methods', "must be an array of methods, such as ['POST'].")
  for (const method of methods) checkName('methods', method)
  checkDuration('lease', lease, { min: 1 })
  checkDuration('retention', retention, { min: 1 })
  checkCount('maxAnswerSize', maxAnswerSize)
  checkCount('maxBodySize', maxBodySize)
  if (fingerprint !== undefined) checkFunction('fingerprint', fingerprint)
  checkFunction('isStored', isStored)
  return {
    scope,
    header: header.toLowerCase(),
    methods: new Set(methods.map((method) => method.toUpperCase())),
    required,
    lease,
    retention,
    maxAnswerSize,
    maxBodySize,
    fingerprint,
    isStored,
    logger: guardLogger(logger),
    runtime,
  }
}

const tryAgain = new Set([408, 425, 429])

function isFinal({ status }: StoredAnswer): boolean {
  return status < 500 && !tryAgain.has(status)
}
