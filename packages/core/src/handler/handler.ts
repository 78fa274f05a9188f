import type { Context } from '../message/context.ts'
import type { Message } from '../message/message.ts'

/** What a router calls for the messages of one type. It knows no broker and no store; its name is given where it is registered. */
export interface Handler {
  readonly type: string
  /** Resolves to the messages that it produced. A rejection means that the message was not handled. */
  handle(message: Message, context: Context): Promise<readonly Message[]>
}

/** The two halves of a handler's `handle`, so that the router can do the second one where it does its own part, without a promise in between. */
export interface DirectHandler {
  run(message: Message, context: Context): Promise<unknown>
  /** What the result of `run` is as messages. */
  outputs(result: unknown, message: Message): readonly Message[]
}

// By the function, and not by the handler: a handler that is copied with a `handle` of its own has no halves.
const halves = new WeakMap<Handler['handle'], DirectHandler>()

/** A `handle` that is made of these. */
export function handleBy(direct: DirectHandler): Handler['handle'] {
  const handle: Handler['handle'] = (message, context) => direct.run(message, context).then((result) => direct.outputs(result, message))
  halves.set(handle, direct)
  return handle
}

/** What a handler's `handle` is made of, where it is known; else itself and nothing. */
export function directOf(handler: Handler): DirectHandler {
  return (
    halves.get(handler.handle) ?? {
      run: (message, context) => {
        const outputs: unknown = handler.handle(message, context)
        return outputs instanceof Promise ? outputs : Promise.resolve(outputs)
      },
      // Looked at where they are completed.
      outputs: (result) => result as readonly Message[],
    }
  )
}
