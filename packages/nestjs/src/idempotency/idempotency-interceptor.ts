import { AckordError } from '@ackord/core'
import { IdempotencyEngine, type IdempotencyOptions } from '@ackord/http/idempotency'
import type { StoredAnswer } from '@ackord/outbox'
import {
  type CallHandler,
  type ExecutionContext,
  HttpException,
  Inject,
  type NestInterceptor,
  StreamableFile,
  type Type,
} from '@nestjs/common'
import { from, lastValueFrom, type Observable } from 'rxjs'
import type { AckordInstance } from '../instance/ackord-instance.ts'
import { getInstanceToken } from '../instance/tokens.ts'
import { HttpResponse, type PlatformRequest, viewOf } from './platform.ts'

/** The key of the options of `@Idempotent()` in the metadata of a method. */
export const idempotentKey = 'ackord:idempotent'

type Engine = IdempotencyEngine<unknown, PlatformRequest>

/** Runs the methods that are decorated with `@Idempotent()` on the store of its instance. */
class IdempotencyInterceptor implements NestInterceptor {
  readonly #instance: AckordInstance
  readonly #engines = new WeakMap<object, Engine>()

  constructor(instance: AckordInstance) {
    this.#instance = instance
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return from(this.#handle(context, next))
  }

  async #handle(context: ExecutionContext, next: CallHandler): Promise<unknown> {
    const http = context.switchToHttp()
    const request = http.getRequest<PlatformRequest>()
    const response = new HttpResponse(http.getResponse())
    let result: unknown
    let own: StoredAnswer | undefined

    const answer = await this.#engineOf(context.getHandler()).handle(request, viewOf(request), async () => {
      // Called here, so that the handler finds the transaction in its async context.
      result = await lastValueFrom(next.handle(), { defaultValue: undefined })
      own = answerOf(result, response)
      return own
    })
    if (answer === undefined) return await lastValueFrom(next.handle(), { defaultValue: undefined })
    if (answer === own) return result
    response.replay(answer)
    const content: unknown = answer.body.byteLength === 0 ? undefined : JSON.parse(new TextDecoder().decode(answer.body))
    if (isReplayed(answer)) return content
    // A refusal of the engine is an error like others: filters see it, and interceptors do not.
    throw new HttpException(content as object, answer.status)
  }

  #engineOf(method: object): Engine {
    const known = this.#engines.get(method)
    if (known !== undefined) return known
    const options: IdempotencyOptions<PlatformRequest> = Reflect.getMetadata(idempotentKey, method)
    const { idempotency, logger } = this.#instance
    const engine: Engine = new IdempotencyEngine(idempotency, { logger, ...options }, '@Idempotent()')
    this.#engines.set(method, engine)
    return engine
  }
}

const interceptors = new Map<string, Type<NestInterceptor>>()

/** The interceptor of an instance, as a class that Nest creates where it is used. */
export function idempotencyInterceptor(instance: string | undefined): Type<NestInterceptor> {
  const token = getInstanceToken(instance)
  const known = interceptors.get(token)
  if (known !== undefined) return known
  const created = class extends IdempotencyInterceptor {}
  Inject(token)(created, undefined, 0)
  interceptors.set(token, created)
  return created
}

/**
 * The answer that Nest is about to send: the value of the method as JSON, the status, and the headers that the method has set. Interceptors outside of this one
 * see the same value when the answer is sent again.
 */
function answerOf(result: unknown, response: HttpResponse): StoredAnswer {
  if (response.isSent) throw unsupported('sends its answer itself. Use @Res({ passthrough: true }), and return the answer')
  if (result instanceof StreamableFile) throw unsupported('returns a stream, which cannot be sent again')
  const body = result === undefined ? new Uint8Array() : new TextEncoder().encode(JSON.stringify(result))
  return { status: response.status, headers: response.changedHeaders(), body }
}

function isReplayed({ headers }: StoredAnswer): boolean {
  return headers.some(([name]) => name === 'idempotency-replayed')
}

function unsupported(problem: string): AckordError {
  return new AckordError('ACKORD_INVALID_OUTPUT', `A method with @Idempotent() ${problem}. Everything was rolled back.`, {
    retryable: false,
  })
}
