import type { Context } from '../message/context.ts'
import type { Message } from '../message/message.ts'
import type { BatchSettings } from './batch.ts'

/** Processes the messages of one type. It depends on no broker and no store; its name is given where it is registered. */
export interface Handler {
  readonly type: string
  /** Resolves to the messages that it produced. A rejection means that the message was not handled. */
  handle(message: Message, context: Context): Promise<readonly Message[]>
  /** Set by `batchHandler()`: how its messages are gathered. Default: each message is handled by itself. */
  readonly batch?: BatchSettings | undefined
}

/** The two halves of a handler's `handle`, so that the router can run the second one together with its own part, without a promise in between. */
export interface DirectHandler {
  run(message: Message, context: Context): Promise<unknown>
  /** Converts the result of `run` to messages. */
  outputs(result: unknown, message: Message): readonly Message[]
}

// By the function, not by the handler: a copied handler with its own `handle` has no halves.
const halves = new WeakMap<Handler['handle'], DirectHandler>()

/** Creates a `handle` from the two halves. */
export function handleBy(direct: DirectHandler): Handler['handle'] {
  const handle: Handler['handle'] = (message, context) => direct.run(message, context).then((result) => direct.outputs(result, message))
  halves.set(handle, direct)
  return handle
}

/** The halves of a handler's `handle`, where they are known; else `handle` itself and no second half. */
export function directOf(handler: Handler): DirectHandler {
  return (
    halves.get(handler.handle) ?? {
      run: (message, context) => {
        const outputs: unknown = handler.handle(message, context)
        return outputs instanceof Promise ? outputs : Promise.resolve(outputs)
      },
      // They are validated where they are completed.
      outputs: (result) => result as readonly Message[],
    }
  )
}
