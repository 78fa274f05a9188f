import {
  type ClassInput,
  type CommandHandlerOptions,
  type Context,
  commandHandler,
  type Handler,
  type HandlerResult,
  type TextInput,
} from '@ackord/core'
import type { Database } from '../transaction/database.ts'

/** As the function of `commandHandler()`, with the transaction of the message. */
export type TransactionalFunction<Data, Handle> = (
  data: Data,
  transaction: Handle,
  context: Context,
) => HandlerResult | Promise<HandlerResult>

/**
 * A command handler that is given the transaction of its message, for those who would rather have it as an argument than ask for it by
 * `database.executor()`. Its events are the outbox's, as everybody's: it wants `transactional()` around it, and fails the message without.
 */
export function commandHandlerWithOutbox<Handle, Data = unknown>(
  database: Database<Handle>,
  options: CommandHandlerOptions & TextInput<Data>,
  handle: TransactionalFunction<Data, Handle>,
): Handler
export function commandHandlerWithOutbox<Handle, Data extends object>(
  database: Database<Handle>,
  options: CommandHandlerOptions & ClassInput<Data>,
  handle: TransactionalFunction<Data, Handle>,
): Handler
export function commandHandlerWithOutbox<Handle>(
  database: Database<Handle>,
  options: CommandHandlerOptions & (ClassInput<object> | TextInput<unknown>),
  handle: TransactionalFunction<never, Handle>,
): Handler {
  const work = (data: unknown, context: Context) => {
    // The signatures above have compared the type of the function's parameter with the input.
    return handle(data as never, database.executor(context, { required: true }), context)
  }
  // Both forms lead to the same function inside.
  return commandHandler(options as CommandHandlerOptions & TextInput<unknown>, work)
}
