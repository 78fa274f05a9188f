import type { Handler } from './handler.ts'
import { checkName } from './options.ts'
import {
  type AnyInput,
  type ClassInput,
  type HandlerFunction,
  type HandlerOutputOptions,
  type TextInput,
  typedHandler,
} from './typed-handler.ts'

export interface CommandHandlerOptions extends HandlerOutputOptions {
  /** The CloudEvents source of the events, for those that have none of their own: who they come from. */
  readonly source: string
}

/**
 * Handles the commands of one type and gives back the events that come of them. The function is pure as far as messaging
 * goes: it calls its ports and returns, and the router does the rest.
 */
export function commandHandler<Data = unknown>(options: CommandHandlerOptions & TextInput<Data>, handle: HandlerFunction<Data>): Handler
export function commandHandler<Data extends object>(
  options: CommandHandlerOptions & ClassInput<Data>,
  handle: HandlerFunction<Data>,
): Handler
export function commandHandler(options: CommandHandlerOptions & AnyInput, handle: HandlerFunction<never>): Handler {
  checkName('source', options.source)
  return typedHandler(options, handle)
}
