import type { Context, Message } from '@ackord/core'
import { BaseRpcContext } from '@nestjs/microservices'

/** The value that `@Ctx()` injects into the handlers of an `AckordTransport`. */
export class AckordRpcContext extends BaseRpcContext<[message: Message, context: Context]> {
  #failure: { readonly error: unknown } | undefined

  /** The message, with its attributes. */
  getMessage(): Message {
    return this.args[0]
  }

  /** The context of the message: its transaction, its signal, its deadline. */
  getContext(): Context {
    return this.args[1]
  }

  /** @internal The error of the handler, before exception filters changed it. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure
  }

  /** @internal */
  recordFailure(error: unknown): void {
    this.#failure ??= { error }
  }
}
