import type { Handler } from './handler.ts'
import {
  type AnyInput,
  type ClassInput,
  type HandlerFunction,
  type HandlerOutputOptions,
  type TextInput,
  typedHandler,
} from './typed-handler.ts'

/** As for `commandHandler()`, but `source` is only needed by handlers that return events without one, on a router without one. */
export interface EventHandlerOptions extends HandlerOutputOptions {}

/** Handles the events of one type. It may give back events of its own. */
export function eventHandler<Data = unknown>(options: EventHandlerOptions & TextInput<Data>, handle: HandlerFunction<Data>): Handler
export function eventHandler<Data extends object>(options: EventHandlerOptions & ClassInput<Data>, handle: HandlerFunction<Data>): Handler
export function eventHandler(options: EventHandlerOptions & AnyInput, handle: HandlerFunction<never>): Handler {
  return typedHandler(options, handle)
}
