import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common'
import { catchError, type Observable, throwError } from 'rxjs'
import { AckordRpcContext } from './ackord-rpc-context.ts'

/**
 * Lets an `AckordTransport` see the errors of handlers and pipes. Without it, Nest's exception filter replaces them by `Internal server error`, and a message that can
 * never be handled is retried like any other. Does nothing for requests and for other transports.
 *
 *     app.useGlobalInterceptors(new HandlerErrorInterceptor())
 *
 * In a hybrid application this comes before `app.connectMicroservice({ strategy }, { inheritAppConfig: true })`.
 */
export class HandlerErrorInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rpc: unknown = context.getType() === 'rpc' ? context.switchToRpc().getContext() : undefined
    if (!(rpc instanceof AckordRpcContext)) return next.handle()
    return next.handle().pipe(
      catchError((error: unknown) => {
        rpc.recordFailure(error)
        return throwError(() => error)
      }),
    )
  }
}
