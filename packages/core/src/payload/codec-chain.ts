import { abortable, type LinkedController, linkedController } from '../async/abort.ts'
import { AckordError, describeValue, InvalidOptionError, isAckordError } from '../errors.ts'
import { describeMessage } from '../message/marshal.ts'
import { ackingOf, isMessage, type Message, type RawMessage } from '../message/message.ts'
import { checkDuration, checkFunction } from '../options.ts'
import type { Runtime } from '../ports/runtime.ts'
import type { CodecCallOptions, CodecOptions, PayloadCodec } from './codec.ts'

/** The codecs of a reader or a writer, with their time limit. */
export interface CodecChain {
  /** Returns no promise if no codec does. A message that these codecs have encoded already is returned unchanged. */
  encode(message: RawMessage, signal?: AbortSignal | undefined): RawMessage | Promise<RawMessage>
  /** Encodes several messages, a few of them concurrently. Rejects if one fails. */
  encodeAll(messages: readonly RawMessage[], signal?: AbortSignal | undefined): Promise<readonly RawMessage[]>
  /** Returns no promise if no codec does. */
  decode(message: RawMessage, signal?: AbortSignal | undefined): RawMessage | Promise<RawMessage>
}

type Step = (message: RawMessage, options: CodecCallOptions) => RawMessage | Promise<RawMessage>

/** How many messages of one transaction or publish are encoded concurrently. */
const maxConcurrent = 8

interface Encoded {
  readonly message: RawMessage
  readonly codecs: readonly PayloadCodec[]
}

/**
 * The codecs that encoded these bytes. A message may pass two writers with the same codecs, such as an outbox middleware and `append()` of its outbox, and must be encoded
 * once. The key is the bytes, because a copy of a message with further attributes, such as those of a trace, has the same.
 */
const encodedAs = new WeakMap<Uint8Array, Encoded>()

/** The attributes that a codec must not change. A reader needs the first three to decode a message. */
const keptAttributes = ['id', 'source', 'type', 'partitionkey'] as const

/** Checks the options. `undefined` without codecs: the caller then takes its usual, synchronous path. */
export function codecChain(options: CodecOptions, runtime: Runtime): CodecChain | undefined {
  const { codecs = [], codecTimeout = 10_000 } = options
  checkCodecs(codecs)
  checkDuration('codecTimeout', codecTimeout, { min: 1 })
  if (codecs.length === 0) return undefined
  // A copy: the caller may change its array later.
  const used = [...codecs]
  const encoding = used.map(
    (codec): Step =>
      (message, call) =>
        codec.encode(message, call),
  )
  const decoding = used.toReversed().map(
    (codec): Step =>
      (message, call) =>
        codec.decode(message, call),
  )
  const limits = { runtime, timeout: codecTimeout }

  function encode(message: RawMessage, signal: AbortSignal | undefined): RawMessage | Promise<RawMessage> {
    if (isEncodedBy(message, used)) return message
    const result = runSteps('encode', encoding, message, signal, limits)
    return result instanceof Promise ? result.then((encoded) => remember(encoded, message)) : remember(result, message)
  }

  /** Unchanged bytes are not remembered: another message may have the same array, and need to be encoded. */
  function remember(encoded: RawMessage, message: RawMessage): RawMessage {
    if (encoded.data !== message.data) encodedAs.set(encoded.data, { message: encoded, codecs: used })
    return encoded
  }

  return {
    encode,
    async encodeAll(messages, signal) {
      const results: RawMessage[] = []
      const pending = messages.entries()
      let failed = false
      const work = async () => {
        try {
          for (const [index, message] of pending) {
            results[index] = await encode(message, signal)
            if (failed) return
          }
        } catch (error) {
          // None of the messages will be written: the rest must not be uploaded.
          failed = true
          throw error
        }
      }
      await Promise.all(Array.from({ length: Math.min(maxConcurrent, messages.length) }, work))
      return results
    },
    decode: (message, signal) => runSteps('decode', decoding, message, signal, limits),
  }
}

function isEncodedBy(message: RawMessage, codecs: readonly PayloadCodec[]): boolean {
  const known = encodedAs.get(message.data)
  if (known === undefined || known.codecs.length !== codecs.length) return false
  // The same bytes under another id would be sent, and no reader could decode them: the codecs reject them.
  return known.codecs.every((codec, index) => codec === codecs[index]) && changedAttribute(known.message, message) === undefined
}

function changedAttribute(before: Message, after: Message): string | undefined {
  return keptAttributes.find((name) => before.attributes[name] !== after.attributes[name])
}

interface Limits {
  readonly runtime: Runtime
  /** Milliseconds. */
  readonly timeout: number
}

type Verb = 'encode' | 'decode'

/** Synchronous for as long as the codecs are. */
function runSteps(
  verb: Verb,
  steps: readonly Step[],
  message: RawMessage,
  parent: AbortSignal | undefined,
  limits: Limits,
): RawMessage | Promise<RawMessage> {
  const call = new CodecCall(parent)
  let current = message
  let waits = false
  try {
    for (const [index, step] of steps.entries()) {
      const result: unknown = step(current, call)
      if (isPromise(result)) {
        waits = true
        return withinLimit(verb, continueWith(verb, message, result, steps.slice(index + 1), call), message, call, limits)
      }
      current = checkResult(verb, message, result)
    }
    return current
  } catch (error) {
    throw failure(verb, message, error)
  } finally {
    if (!waits) call.end()
  }
}

async function continueWith(
  verb: Verb,
  message: RawMessage,
  first: PromiseLike<unknown>,
  steps: readonly Step[],
  call: CodecCall,
): Promise<RawMessage> {
  let current = checkResult(verb, message, await first)
  for (const step of steps) {
    // The caller no longer waits: an upload would be in vain.
    call.signal.throwIfAborted()
    current = checkResult(verb, message, await step(current, call))
  }
  return current
}

async function withinLimit(
  verb: Verb,
  work: Promise<RawMessage>,
  message: RawMessage,
  call: CodecCall,
  { runtime, timeout }: Limits,
): Promise<RawMessage> {
  const timer = runtime.setTimeout(() => call.abort(tooLate(verb, message, timeout)), timeout)
  try {
    return await abortable(work, call.signal)
  } catch (error) {
    // The reason of an abort is passed on as it is.
    throw call.signal.aborted && error === call.signal.reason ? error : failure(verb, message, error)
  } finally {
    timer.cancel()
    call.end()
  }
}

/** Creates its signal on demand: a codec that only computes does not need one, and it is expensive for every message. */
class CodecCall implements CodecCallOptions {
  readonly #parent: AbortSignal | undefined
  #controller: LinkedController | undefined

  constructor(parent: AbortSignal | undefined) {
    this.#parent = parent
  }

  get signal(): AbortSignal {
    return this.#linked.signal
  }

  abort(reason: unknown): void {
    this.#linked.abort(reason)
  }

  end(): void {
    this.#controller?.[Symbol.dispose]()
  }

  get #linked(): LinkedController {
    this.#controller ??= linkedController(this.#parent ?? new AbortController().signal)
    return this.#controller
  }
}

export function checkCodecs(codecs: readonly PayloadCodec[]): void {
  if (!Array.isArray(codecs)) throw new InvalidOptionError('codecs', `must be an array of codecs; it is ${describeValue(codecs)}.`)
  for (const [index, codec] of codecs.entries()) {
    checkFunction(`codecs[${index}].encode`, codec?.encode)
    checkFunction(`codecs[${index}].decode`, codec?.decode)
  }
}

function checkResult(verb: Verb, message: RawMessage, result: unknown): RawMessage {
  const problem = problemOf(message, result)
  if (problem === undefined) return result as RawMessage
  const rule = 'A codec must return a copy of its message with other bytes, by message.copy(bytes) and withAttributes()'
  throw new AckordError('ACKORD_CODEC_FAILED', `${rule}; to ${verb} ${describeMessage(message)} it returned ${problem}.`)
}

function problemOf(message: RawMessage, result: unknown): string | undefined {
  if (!isMessage(result)) return describeValue(result)
  if (!(result.data instanceof Uint8Array)) return `a message with ${describeValue(result.data)} as data`
  const changed = changedAttribute(message, result)
  if (changed !== undefined) return `a message with another ${changed}`
  // It would never be settled.
  return ackingOf(result) === ackingOf(message) ? undefined : 'a message that is no copy'
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

function failure(verb: Verb, message: RawMessage, cause: unknown): unknown {
  if (isAckordError(cause)) return cause
  return new AckordError('ACKORD_CODEC_FAILED', `A codec failed to ${verb} ${describeMessage(message)}.`, { cause })
}

function tooLate(verb: Verb, message: RawMessage, timeout: number): AckordError {
  return new AckordError(
    'ACKORD_CODEC_FAILED',
    `The codecs did not ${verb} ${describeMessage(message)} within the codecTimeout of ${timeout} ms.`,
  )
}
