import type { RawMessage } from '../message/message.ts'
import { checkDuration, rejectUnknownOptions } from '../options.ts'
import { type Runtime, systemRuntime } from '../ports/runtime.ts'
import type { PayloadCodec } from './codec.ts'
import { checkCodecs, codecChain } from './codec-chain.ts'

export interface PayloadOptions {
  /** Aborts the codecs. Default: none. */
  readonly signal?: AbortSignal | undefined
  /** The time limit of all codecs, in milliseconds. Default: 10,000. */
  readonly timeout?: number | undefined
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/**
 * Encodes a message for code that publishes without a router or outbox, or that uploads large data before its transaction begins: `append()` of an outbox with the
 * same codecs stores the result as it is. The message needs an id, a source and a type.
 */
export async function encodePayload(
  message: RawMessage,
  codecs: readonly PayloadCodec[],
  options: PayloadOptions = {},
): Promise<RawMessage> {
  const { chain, signal } = open('encodePayload()', codecs, options)
  return chain === undefined ? message : await chain.encode(message, signal)
}

/** Decodes a message for code that reads without a router, such as a tool that shows dead letters. */
export async function decodePayload(
  message: RawMessage,
  codecs: readonly PayloadCodec[],
  options: PayloadOptions = {},
): Promise<RawMessage> {
  const { chain, signal } = open('decodePayload()', codecs, options)
  return chain === undefined ? message : await chain.decode(message, signal)
}

function open(caller: string, codecs: readonly PayloadCodec[], options: PayloadOptions) {
  const { signal, timeout = 10_000, runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions(caller, unknown)
  checkCodecs(codecs)
  checkDuration('timeout', timeout, { min: 1 })
  return { chain: codecChain({ codecs, codecTimeout: timeout }, runtime), signal }
}
