import { setMaxListeners } from 'node:events'
import type { Publisher } from '../broker/publisher.ts'
import type { Source } from '../broker/source.ts'
import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import type { Handler } from '../handler/handler.ts'
import { Acking, type HandleOneResult } from '../message/acking.ts'
import { currentContext, outside } from '../message/context.ts'
import { describeMessage } from '../message/marshal.ts'
import { jsonMarshaler, type Marshaler } from '../message/marshaler.ts'
import { ackingOf, isMessage, isSettled, type Message, withAcking } from '../message/message.ts'
import { compose, type Middleware } from '../middleware/middleware.ts'
import { timeoutMiddleware } from '../middleware/timeout.ts'
import { checkDuration, checkFunction, checkName, rejectUnknownOptions } from '../options.ts'
import type { CodecOptions } from '../payload/codec.ts'
import { type CodecChain, codecChain } from '../payload/codec-chain.ts'
import { payloadDecoder } from '../payload/payload-decoder.ts'
import type { SharedPorts } from '../ports/part-ports.ts'
import type { Runtime } from '../ports/runtime.ts'
import { outputCompleter } from './complete-outputs.ts'
import { Dispatcher } from './dispatcher.ts'
import { type HandlerOptions, HandlerTable } from './handler-table.ts'
import { MessageProcessor, processorKey, type RunPorts } from './message-processor.ts'
import { OutputQueue } from './output-queue.ts'
import { acknowledgeOutputs, type Destination, publishOutputs } from './publish-outputs.ts'
import { type RouterOptions, type RouterSettings, routerSettings } from './router-options.ts'
import { SingleMessages } from './single-messages.ts'

export interface PipeOptions {
  /** Stops the router as `stop()` does. */
  readonly signal?: AbortSignal | undefined
}

/** `codecs` and `codecTimeout`: for the messages of the source, and for outputs. Default: those of the router. */
export interface RunOptions extends PipeOptions, CodecOptions {
  /** Where outputs are published. Without it an output is an error, unless an outbox stores them all. */
  readonly publisher?: Publisher | undefined
  /** Required with a publisher. */
  readonly destination?: Destination | undefined
  /** The time limit of the publisher for the outputs of a message, in milliseconds; after it the message is nacked. Default: 10,000. */
  readonly publishTimeout?: number | undefined
  /** Default: JSON. */
  readonly marshaler?: Marshaler | undefined
}

export interface RouterHealth {
  readonly state: 'idle' | 'running' | 'stopping'
  /** Messages being handled. */
  readonly inFlight: number
  /** Messages that were read and wait for their turn. */
  readonly queued: number
  /** The number of tenants that have messages among those that wait; 0 without `fairness`. */
  readonly waitingTenants: number
  /** Whether the messages in flight wait, and no others are read, because the store rejects writes. */
  readonly paused: boolean
  /** Since the router was created. */
  readonly handled: number
  readonly failed: number
  readonly lastError: Error | undefined
}

/** The options of `run()` apply to this message alone. */
export interface HandleOneOptions extends RunOptions {
  /**
   * Aborts the signal of the handler, as `timeout` does. A message that still waits for its turn is nacked immediately.
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Milliseconds after which the signal of the handler is aborted, the wait for its turn included. Handlers see it as the deadline of their context. Default: Infinity, no
   * limit.
   */
  readonly timeout?: number | undefined
  /**
   * Milliseconds that a handler gets to end after its signal was aborted. Then the call resolves as nacked, although the handler still runs; a transaction that is open is
   * rolled back. `Infinity` waits for the handler. Default: 1,000.
   */
  readonly grace?: number | undefined
}

/** The parts of a run; for `Engine`, which has its own inputs and outputs. */
export interface ConsumeOptions extends RunPorts {
  readonly messages: (signal: AbortSignal) => AsyncIterable<Message>
  readonly cooperative: boolean
  readonly signal: AbortSignal | undefined
  /** Called around the work for each message. Default: the work is called as it is. */
  readonly around?: ((message: Message, work: (done: () => void) => void, done: () => void) => void) | undefined
}

/** @internal Starts a run. */
export let startRun: (router: Router, options: ConsumeOptions) => Promise<void>

/** @internal The clock of the router. */
export let runtimeOf: (router: Router) => Runtime

/** @internal The codecs of an input or output that has these options, or those of the router. */
export let codecsOf: (router: Router, options: CodecOptions) => CodecChain | undefined

/** @internal What the router was given, for the parts that it uses. */
export let sharedPortsOf: (router: Router) => SharedPorts

/** @internal Whether the caller is a handler of the router's own run; warns if so. */
export let inOwnHandler: (router: Router, call: string) => boolean

interface Run {
  readonly dispatcher: Dispatcher
  readonly processor: MessageProcessor
}

/**
 * Dispatches messages from a source to the handlers of their types, through the middleware, and settles them. It is configured first, then started:
 * by `run()` or `pipe()`, or by the first `handleOne()`; one of them at a time.
 */
export class Router {
  readonly #settings: RouterSettings
  readonly #middleware: Middleware[] = []
  readonly #handlers = new HandlerTable()
  #started = false
  #current: Run | undefined
  #singles: SingleMessages | undefined
  #stopped = false
  #ended: Promise<unknown> = Promise.resolve()
  #handled = 0
  #failed = 0
  #lastError: Error | undefined

  static {
    startRun = (router, options) => router.#consume(options)
    runtimeOf = (router) => router.#settings.runtime
    codecsOf = (router, { codecs, codecTimeout }) => {
      const { codecs: defaults, runtime } = router.#settings
      const options = { codecs: codecs ?? defaults.codecs, codecTimeout: codecTimeout ?? defaults.codecTimeout }
      return codecChain(options, runtime)
    }
    sharedPortsOf = (router) => router.#settings.shared
    inOwnHandler = (router, call) => router.#inOwnHandler(call)
  }

  constructor(options: RouterOptions = {}) {
    this.#settings = routerSettings(options)
  }

  /** Adds middleware around all handlers. The first one added is the outermost, inside acking. */
  use(...added: readonly Middleware[]): this {
    this.#checkNotStarted('use()')
    for (const [index, part] of added.entries()) checkFunction(`use(…)[${index}]`, part)
    this.#middleware.push(...added)
    return this
  }

  /** Adds the handler for its type; there is one per type. */
  handle(handler: Handler, options: HandlerOptions = {}): this {
    this.#checkNotStarted('handle()')
    this.#handlers.add(handler, options)
    return this
  }

  /** Adds several handlers, without options. */
  handleAll(...handlers: readonly Handler[]): this {
    this.#checkNotStarted('handleAll()')
    for (const handler of handlers) this.#handlers.add(handler, {})
    return this
  }

  /**
   * Handles typed messages and yields the outputs. Under `onSuccess` an input is acked when its outputs have been read. Starts when iterated; leaving
   * the loop stops the router and nacks inputs whose outputs were not read.
   */
  pipe(messages: AsyncIterable<Message>, options: PipeOptions = {}): AsyncIterableIterator<Message> {
    checkFunction('pipe(messages)[Symbol.asyncIterator]', messages?.[Symbol.asyncIterator])
    this.#checkReady()
    let queue: OutputQueue | undefined
    const start = (): OutputQueue => {
      const outputs = new OutputQueue(() => this.stop())
      const run = this.#consume({
        messages: () => messages,
        cooperative: false,
        signal: options.signal,
        decode: undefined,
        deliver: (offered) => outputs.offer(offered),
        abandon: (reason) => outputs.refuse(reason),
      })
      run.then(
        () => outputs.end(),
        (error: unknown) => outputs.end({ error }),
      )
      return outputs
    }
    return {
      next() {
        queue ??= start()
        return queue.next()
      },
      return() {
        queue ??= new OutputQueue(async () => {})
        return queue.return()
      },
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  /**
   * Handles the messages of a source and publishes the outputs, until the source ends, the signal is aborted or `stop()` is called. Resolves when all
   * messages are settled; rejects if the source failed, after the same.
   */
  async run(source: Source, options: RunOptions = {}): Promise<void> {
    const { signal, ...others } = options
    const ports = this.#portsOf('run()', others)
    checkSource(source)
    source.inheritPorts?.(this.#settings.shared)
    await this.#consume({
      messages: (reading) => source.messages({ signal: reading }),
      cooperative: true,
      signal,
      abandon: undefined,
      ...ports,
    })
  }

  /**
   * Handles one message that comes from no source, such as an event that a platform passes to a function: with decoding, middleware, handler and outputs, as in `run()`.
   * Resolves to the settlement, and never hangs: see `timeout` and `grace`. Data that are bytes are decoded by the marshaler and the codecs. The first call starts the router
   * until `stop()`. Up to `concurrency` calls run concurrently, later ones wait; with `orderingKey`, calls for one key run in their order. A message whose store rejects
   * writes is nacked.
   *
   * Rejects for invalid options, while the router runs otherwise, after `stop()`, and inside of its own handlers, which could wait for themselves.
   */
  async handleOne(message: Message, options: HandleOneOptions = {}): Promise<HandleOneResult> {
    const { signal, timeout = Infinity, grace = 1000, ...others } = options
    const ports = this.#portsOf('handleOne()', others)
    checkDuration('timeout', timeout, { min: 1, infinite: true })
    checkDuration('grace', grace, { infinite: true })
    const checked = checkSingle(message)
    if (this.#settings.ackStrategy === 'manual') throw new InvalidOptionError('ackStrategy', manualSingle)
    if (this.#stopped) throw new AckordError('ACKORD_SHUTDOWN', `The router was stopped; it does not handle ${describeMessage(message)}.`)
    if (this.#isOwnHandler()) throw new AckordError('ACKORD_ALREADY_STARTED', nestedSingle)
    // Every call may listen to it. Avoids Node's MaxListenersExceededWarning.
    if (signal !== undefined) setMaxListeners(0, signal)
    this.#singles ??= this.#startSingles()
    if (this.#singles.has(checked)) throw new InvalidOptionError('handleOne(message)', 'is already being handled by another call.')
    const decode = message.data instanceof Uint8Array ? ports.decode : undefined
    return await this.#singles.handle({ ...checked, decode, deliver: ports.deliver, limits: { signal, timeout, grace } })
  }

  /**
   * Stops reading, lets handlers finish, nacks waiting messages; `handleOne()` accepts no more. Idempotent in every state. Resolves when all messages are settled; under `manual`
   * the handlers do that. In a handler it resolves immediately, because it would wait for that handler (with `ambient: false` it cannot know: do not
   * await it there).
   */
  async stop(): Promise<void> {
    this.#stopped = true
    const { dispatcher } = this.#current ?? {}
    // A handler that calls this must not pass its context, with its transaction, to the nacks of other messages.
    const stopped = dispatcher === undefined ? undefined : outside(() => dispatcher.stop())
    if (this.#inOwnHandler('stop()')) return
    await stopped
    await this.#ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  health(): RouterHealth {
    const run = this.#current
    return {
      state: run === undefined ? 'idle' : run.dispatcher.stopping ? 'stopping' : 'running',
      inFlight: run?.dispatcher.running ?? 0,
      queued: run?.dispatcher.queued ?? 0,
      waitingTenants: run?.dispatcher.waitingTenants ?? 0,
      paused: run?.processor.paused ?? false,
      handled: this.#handled + (run?.processor.handled ?? 0),
      failed: this.#failed + (run?.processor.failed ?? 0),
      lastError: run?.processor.lastError ?? this.#lastError,
    }
  }

  /** Whether the caller is a handler of this run, which must not wait for its own end. */
  #inOwnHandler(call: string): boolean {
    if (!this.#isOwnHandler()) return false
    this.#settings.logger.warn({}, `${call} was called in a handler: it does not wait for the end, which includes that handler.`)
    return true
  }

  #isOwnHandler(): boolean {
    const processor = currentContext()?.get(processorKey)
    return processor !== undefined && processor === this.#current?.processor
  }

  /** The steps around the handling of a message from a source, or of a single one. */
  #portsOf(call: string, options: Omit<RunOptions, 'signal'>): Pick<RunPorts, 'decode' | 'deliver'> {
    const { publisher, destination, publishTimeout = 10_000, marshaler = jsonMarshaler, codecs, codecTimeout, ...unknown } = options
    rejectUnknownOptions(call, unknown)
    const chain = codecsOf(this, { codecs, codecTimeout })
    checkDuration('publishTimeout', publishTimeout, { min: 1 })
    const { runtime, shared } = this.#settings
    if (publisher !== undefined) {
      checkFunction('publisher.publish', publisher.publish)
      if (destination === undefined) {
        throw new InvalidOptionError('destination', 'is required with a publisher: a name, or a function of the message.')
      }
      if (typeof destination !== 'function') checkName('destination', destination)
    } else if (destination !== undefined) {
      throw new InvalidOptionError('publisher', 'is required with a destination.')
    }
    publisher?.inheritPorts?.(shared)
    return {
      decode: payloadDecoder(marshaler, chain),
      async deliver(outputs, input, forced) {
        if (publisher === undefined || destination === undefined) throw noPublisher(outputs, input, call)
        const limits = { signal: forced, timeout: publishTimeout, runtime }
        await publishOutputs(outputs, { publisher, destination, marshaler, codecs: chain, ...limits })
        await acknowledgeOutputs(outputs, input)
      },
    }
  }

  #startSingles(): SingleMessages {
    this.#checkReady()
    const singles = new SingleMessages(this.#settings.runtime)
    const run = this.#begin({
      messages: (reading) => singles.messages(reading),
      cooperative: true,
      signal: undefined,
      around: (message, work, done) => singles.run(message, work, done),
      ...singles.ports,
    })
    // Its source cannot fail.
    run.catch(() => {})
    return singles
  }

  #consume(options: ConsumeOptions): Promise<void> {
    try {
      this.#checkReady()
    } catch (error) {
      return Promise.reject(error)
    }
    return this.#begin(options)
  }

  /** Starts a run. The router must be ready. */
  #begin(options: ConsumeOptions): Promise<void> {
    this.#handlers.passPorts(this.#middleware, this.#settings.shared)
    const run = this.#create(options)
    this.#current = run
    this.#started = true
    const ended = outside(() => this.#drive(run, options))
    this.#ended = ended.catch(() => {})
    return ended
  }

  #create({ around, ...ports }: ConsumeOptions): Run {
    const settings = this.#settings
    const complete = outputCompleter(settings.runtime, settings.source, settings.logger)
    const { processTimeout, runtime } = settings
    const limits = processTimeout === Infinity ? [] : [timeoutMiddleware(processTimeout, { runtime })]
    const chain = this.#handlers.limited(compose(...limits, ...this.#middleware)(this.#handlers.process(complete)))
    const processor = new MessageProcessor(settings, chain, complete, ports, this.#handlers.batches())
    const work = (message: Message, done: () => void) => processor.handle(message, done)
    const dispatcher = new Dispatcher({
      ...settings,
      work: around === undefined ? work : (message, done) => around(message, (ended) => work(message, ended), done),
      refuse: (message, error) => processor.fail(message, error),
      release: () => processor.stop(),
      force: (reason) => processor.force(reason),
    })
    return { dispatcher, processor }
  }

  async #drive({ dispatcher, processor }: Run, options: ConsumeOptions): Promise<void> {
    const { signal, messages, cooperative } = options
    const onAbort = () => void outside(() => dispatcher.stop())
    if (signal?.aborted === true) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      await dispatcher.run(messages, { cooperative })
    } finally {
      await processor.answered()
      signal?.removeEventListener('abort', onAbort)
      this.#handled += processor.handled
      this.#failed += processor.failed
      this.#lastError = processor.lastError ?? this.#lastError
      this.#current = undefined
    }
  }

  #checkNotStarted(call: string): void {
    if (this.#started)
      throw new AckordError('ACKORD_ALREADY_STARTED', `${call} was called after the router was started. Configure it first.`)
  }

  #checkReady(): void {
    if (this.#current !== undefined) {
      throw new AckordError('ACKORD_ALREADY_STARTED', 'The router is already running. For several sources use an Engine, or a router each.')
    }
    const { concurrency, logger } = this.#settings
    this.#handlers.check(this.#middleware, this.#settings)
    const wanted = this.#handlers.wantedConcurrency(this.#middleware)
    if (wanted > concurrency) {
      const fields = { concurrency, wanted }
      logger.warn(fields, `A middleware handles ${wanted} messages concurrently, and the router's concurrency is ${concurrency}: raise it.`)
    }
    const gathered = [...this.#handlers.batches().values()].reduce((sum, { size, batches }) => sum + size * batches, 0)
    if (gathered > concurrency) {
      const fields = { concurrency, wanted: gathered }
      logger.warn(fields, `The batch handlers gather ${gathered} messages, and the router's concurrency is ${concurrency}: raise it.`)
    }
  }
}

function checkSource(source: Source): void {
  if (typeof source?.messages === 'function') return
  throw new InvalidOptionError('run(source)', `must be a source, such as broker.source('orders'); it is ${describeValue(source)}.`)
}

const manualSingle =
  "is 'manual', which handleOne() does not support: it ends with the settlement, and the handler may settle the message later."
const nestedSingle =
  'handleOne() was called in a handler of the same router: it could wait for that handler. Return an event, or use another router.'

/** The message with an acking: its own, or one that only keeps the verdict. */
function checkSingle(message: Message): { readonly message: Message; readonly acking: Acking } {
  if (!isMessage(message)) throw new InvalidOptionError('handleOne(message)', `must be a Message; it is ${describeValue(message)}.`)
  if (isSettled(message)) {
    throw new InvalidOptionError('handleOne(message)', `must not be settled; ${describeMessage(message)} is already ${message.state}.`)
  }
  const own = ackingOf(message)
  if (own !== undefined) return { message, acking: own }
  const acking = new Acking({ ack() {}, nack() {}, reject() {} })
  return { message: withAcking(message, acking), acking }
}

function noPublisher(outputs: readonly Message[], input: Message, call: string): AckordError {
  return new AckordError(
    'ACKORD_NO_OUTPUT',
    `Handling ${describeMessage(input)} returned ${outputs.length} outputs, and ${call} has no publisher for them. Add a publisher, or an outbox.`,
  )
}
