import type { Context } from './context.ts'
import type { Message } from './message.ts'

/** What a router calls for the messages of one type. It knows no broker and no store; its name is given where it is registered. */
export interface Handler {
  readonly type: string
  /** Resolves to the messages that it produced. A rejection means that the message was not handled. */
  handle(message: Message, context: Context): Promise<readonly Message[]>
}
