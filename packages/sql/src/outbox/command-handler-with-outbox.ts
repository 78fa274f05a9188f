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

/** The function of `commandHandler()`, with the transaction of the message as a parameter. */
export type TransactionalFunction<Data, Handle> = (
  data: Data,
  transaction: Handle,
  context: Context,
) => HandlerResult | Promise<HandlerResult>

/**
 * A command handler that receives the transaction of its message as an argument, instead of calling `database.executor()`. Its events are stored in
 * the outbox as usual. Requires `transactional()`, and fails the message without it.
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
    // The overloads above have matched the type of the function's parameter with the input.
    return handle(data as never, database.executor(context, { required: true }), context)
  }
  // Both overloads use the same implementation.
  return commandHandler(options as CommandHandlerOptions & TextInput<unknown>, work)
}
