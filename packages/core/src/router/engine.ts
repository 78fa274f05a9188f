import { groupBy } from '../async/collections.ts'
import type { Publisher } from '../broker/publisher.ts'
import type { Source } from '../broker/source.ts'
import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import { describeMessage } from '../message/marshal.ts'
import { jsonMarshaler, type Marshaler } from '../message/marshaler.ts'
import type { Matcher } from '../message/match.ts'
import type { Message } from '../message/message.ts'
import { checkDuration, checkFunction, checkName, rejectUnknownOptions } from '../options.ts'
import type { CodecOptions } from '../payload/codec.ts'
import { type PayloadDecoder, payloadDecoder } from '../payload/payload-decoder.ts'
import { InputMerger } from './input-merger.ts'
import { OutputQueue } from './output-queue.ts'
import { acknowledgeOutputs, type Destination, publishOutputs } from './publish-outputs.ts'
import { codecsOf, inOwnHandler, Router, runtimeOf, sharedPortsOf, startRun } from './router.ts'

export interface EngineOptions {
  /** For raw inputs and outputs that have none of their own. Default: JSON. */
  readonly marshaler?: Marshaler | undefined
}

/** `codecs` and `codecTimeout`: for sources. Default: those of the router. */
export interface InputOptions extends CodecOptions {
  /** Names the input in errors. */
  readonly name: string
  /** A message that it does not match is rejected. Default: all match. */
  readonly match?: Matcher | undefined
  /** For sources. Default: the engine's. */
  readonly marshaler?: Marshaler | undefined
}

export interface EngineInput {
  readonly name: string
  /** Resolves when the input has ended and its last message was passed to the router. */
  readonly ended: Promise<void>
  /** Ends this input; the others continue. */
  stop(): Promise<void>
}

export interface OutputOptions {
  readonly name: string
  /** Which messages it accepts. Outputs are tried in the order they were added, the first that matches gets the message. Default: all. */
  readonly match?: Matcher | undefined
}

/** `codecs` and `codecTimeout`: default: those of the router. */
export interface PublisherOutputOptions extends OutputOptions, CodecOptions {
  readonly destination: Destination
  /** The time limit of the publisher for the outputs of a message, in milliseconds; after it the message is nacked. Default: 10,000. */
  readonly publishTimeout?: number | undefined
  /** Default: the engine's. */
  readonly marshaler?: Marshaler | undefined
}

/** Configures an engine: adds its inputs and outputs. */
export type EnginePlugin = (engine: Engine) => void | Promise<void>

interface Input {
  readonly name: string
  readonly match: Matcher | undefined
  /** For a source. `undefined` if the messages are already typed. */
  readonly decode: PayloadDecoder | undefined
}

interface Output {
  readonly name: string
  readonly match: Matcher | undefined
  /** Whether outputs count as settled when they are delivered; those of a typed output are settled by its reader. */
  readonly settles: boolean
  deliver(outputs: readonly Message[], signal: AbortSignal): Promise<void> | undefined
}

/**
 * Several inputs and outputs around one router. Inputs and outputs may be added before the start or while it runs; it runs until it is stopped, or
 * drained, or an input fails.
 */
export class Engine {
  readonly #router: Router
  readonly #marshaler: Marshaler
  readonly #merger = new InputMerger()
  readonly #names = { input: new Set<string>(), output: new Set<string>() }
  readonly #origins = new WeakMap<Message, Input>()
  readonly #outputs: Output[] = []
  readonly #queues = new Set<OutputQueue>()
  readonly #stopping = new AbortController()
  #failure: { readonly error: AckordError } | undefined
  #run: Promise<void> | undefined

  constructor(router: Router, options: EngineOptions = {}) {
    if (!(router instanceof Router)) throw new InvalidOptionError('new Engine(router)', `must be a router; it is ${describeValue(router)}.`)
    const { marshaler = jsonMarshaler, ...unknown } = options
    rejectUnknownOptions('An engine', unknown)
    this.#router = router
    this.#marshaler = marshaler
  }

  /** A source of raw messages, which are unmarshalled, or an iterable of typed ones. */
  addInput(input: Source | AsyncIterable<Message>, options: InputOptions): EngineInput {
    const { name, match, marshaler = this.#marshaler, codecs, codecTimeout, ...unknown } = options
    rejectUnknownOptions('An input', unknown)
    const chain = codecsOf(this.#router, { codecs, codecTimeout })
    const raw = 'messages' in input
    if (raw) input.inheritPorts?.(sharedPortsOf(this.#router))
    if (!raw) checkFunction('addInput(input)[Symbol.asyncIterator]', input[Symbol.asyncIterator])
    if (match !== undefined) checkFunction('match', match)
    this.#claimName('input', name)
    const origin: Input = { name, match, decode: raw ? payloadDecoder(marshaler, chain) : undefined }
    const added = this.#merger.add(input, {
      onMessage: (message) => this.#origins.set(message, origin),
      onFailed: (error) => this.#fail(name, error),
    })
    void added.ended.then(() => this.#names.input.delete(name))
    return {
      name,
      ended: added.ended,
      async stop() {
        added.stop()
        await added.ended
      },
    }
  }

  /** Marshals and publishes the messages it accepts. */
  addOutput(publisher: Publisher, options: PublisherOutputOptions): this {
    const { name, match, destination, publishTimeout = 10_000, marshaler = this.#marshaler, ...others } = options
    const { codecs, codecTimeout, ...unknown } = others
    rejectUnknownOptions('An output', unknown)
    const chain = codecsOf(this.#router, { codecs, codecTimeout })
    checkDuration('publishTimeout', publishTimeout, { min: 1 })
    const runtime = runtimeOf(this.#router)
    checkFunction('addOutput(publisher).publish', publisher?.publish)
    publisher.inheritPorts?.(sharedPortsOf(this.#router))
    if (typeof destination !== 'function') checkName('destination', destination)
    this.#addOutput({
      name,
      match,
      settles: true,
      deliver: (outputs, signal) =>
        publishOutputs(outputs, { publisher, destination, marshaler, codecs: chain, signal, timeout: publishTimeout, runtime }),
    })
    return this
  }

  /** Yields the messages it accepts, unmarshalled; single use. Under `onSuccess` an input is acked when its outputs have been read. */
  addTypedOutput(options: OutputOptions): AsyncIterableIterator<Message> {
    const queue = new OutputQueue(async () => {
      const index = this.#outputs.indexOf(output)
      if (index !== -1) this.#outputs.splice(index, 1)
      this.#queues.delete(queue)
      this.#names.output.delete(options.name)
    })
    const output: Output = { name: options.name, match: options.match, settles: false, deliver: (outputs) => queue.offer(outputs) }
    this.#addOutput(output)
    this.#queues.add(queue)
    return {
      next: () => queue.next(),
      return: () => queue.return(),
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  /** Runs the plugins one after another; the first that fails ends the sequence. */
  async plug(...plugins: readonly EnginePlugin[]): Promise<void> {
    for (const plugin of plugins) await plugin(this)
  }

  /**
   * Starts, once: a second call returns the same run. Resolves when the engine has stopped and all messages are settled; rejects if an input failed,
   * after the same.
   */
  start(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    this.#run ??= this.#start(options.signal)
    return this.#run
  }

  /** Stops reading, lets handlers finish, nacks waiting messages. Idempotent in every state. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#merger.close()
    if (!inOwnHandler(this.#router, 'stop()')) await this.#run?.catch(() => {})
  }

  /** Accepts no more inputs and ends when the existing ones have ended and all messages are handled. */
  async drain(): Promise<void> {
    this.#merger.close()
    if (!inOwnHandler(this.#router, 'drain()')) await this.#run
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #start(signal: AbortSignal | undefined): Promise<void> {
    const onAbort = () => this.#stopping.abort()
    if (signal?.aborted === true) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      await startRun(this.#router, {
        messages: (reading) => this.#merger.start(reading),
        cooperative: true,
        signal: this.#stopping.signal,
        decode: (message, forced) => this.#decode(message, forced),
        deliver: (outputs, input, forced) => this.#distribute(outputs, input, forced),
        abandon: (reason) => {
          for (const queue of this.#queues) queue.refuse(reason)
        },
      })
    } finally {
      signal?.removeEventListener('abort', onAbort)
      for (const queue of this.#queues) queue.end()
    }
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #decode(message: Message, signal: AbortSignal): Message | Promise<Message> {
    const origin = this.#origins.get(message)
    if (origin?.match !== undefined && !origin.match(message.attributes)) {
      throw new AckordError('ACKORD_INPUT_REFUSED', `Input '${origin.name}' rejected ${describeMessage(message)}.`, { retryable: false })
    }
    return origin?.decode === undefined ? message : origin.decode(message, signal)
  }

  async #distribute(outputs: readonly Message[], input: Message, signal: AbortSignal): Promise<void> {
    const groups = groupBy(outputs, (message) => {
      const output = this.#outputs.find(({ match }) => match === undefined || match(message.attributes))
      if (output === undefined) throw noOutput(message)
      return output
    })
    for (const [output, messages] of groups) await output.deliver(messages, signal)
    for (const [output, messages] of groups) if (output.settles) await acknowledgeOutputs(messages, input)
  }

  #addOutput(output: Output): void {
    if (output.match !== undefined) checkFunction('match', output.match)
    this.#claimName('output', output.name)
    this.#outputs.push(output)
  }

  #claimName(kind: 'input' | 'output', name: string): void {
    checkName('name', name)
    if (this.#names[kind].has(name)) throw new InvalidOptionError('name', `must be unique; the engine already has an ${kind} '${name}'.`)
    this.#names[kind].add(name)
  }

  #fail(name: string, cause: unknown): void {
    this.#failure ??= { error: new AckordError('ACKORD_SOURCE_FAILED', `Input '${name}' failed; the engine stopped.`, { cause }) }
    this.#stopping.abort()
  }
}

function noOutput(message: Message): AckordError {
  return new AckordError('ACKORD_NO_OUTPUT', `No output of the engine accepts ${describeMessage(message)}. Add one whose matcher does.`)
}
