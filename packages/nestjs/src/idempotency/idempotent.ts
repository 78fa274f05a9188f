import type { IdempotencyOptions } from '@ackord/http/idempotency'
import { applyDecorators, SetMetadata, UseInterceptors } from '@nestjs/common'
import { idempotencyInterceptor, idempotentKey } from './idempotency-interceptor.ts'

/** `Request` is that of the platform: of Express or of Fastify. */
export interface IdempotentOptions<Request> extends IdempotencyOptions<Request> {
  /** The instance whose store remembers the answers. Default: the one without a name. */
  readonly instance?: string | undefined
}

/**
 * Carries out a request once, however often it is sent with the same `Idempotency-Key`. The handler runs in a transaction, which `database.executor()` finds; its
 * writes, its events and its answer are committed together before the answer is sent. Later requests with the key get the same answer. An exception rolls everything
 * back and is not remembered.
 *
 *     @Post()
 *     @Idempotent({ scope: (request: Request) => [request.user.id, 'POST /orders'] })
 *     place(@Body() order: OrderDto) { … }
 */
export function Idempotent<Request>(options: IdempotentOptions<Request>): MethodDecorator {
  const { instance, ...own } = options
  return applyDecorators(SetMetadata(idempotentKey, own), UseInterceptors(idempotencyInterceptor(instance)))
}
