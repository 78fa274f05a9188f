import {
  type Closable,
  InvalidOptionError,
  type Publisher,
  type PublishFailure,
  type RawMessage,
  type Runtime,
  systemRuntime,
} from '@ackord/core'
import { createPublisher, type Outgoing, type PublisherDriver, permanentFailure, type SendOptions } from '@ackord/core/broker'
import { checkChoice, checkCount, checkDuration, checkFunction, groupBy, rejectUnknownOptions } from '@ackord/core/internal'
import { isDenied, isMissing } from '../aws-errors.ts'
import { type AwsBatchFailure, checkClient, type EventBridgeClient, type EventBridgeEntry } from '../client.ts'
import { request } from '../requests.ts'
import { requestFailed, tooLarge } from './publish-failures.ts'
import { sendBatches } from './send-batches.ts'

export interface EventBridgePublisherOptions {
  /** The name or ARN of the event bus for a message to this destination. Default: the destination itself. */
  readonly bus?: ((destination: string, message: RawMessage) => string) | undefined
  /**
   * The content of `Detail`. `event`: the whole CloudEvent as JSON, with its id and all attributes; rules match on `detail.data`. `data`: the data alone, which must be a JSON object; id and
   * further attributes are lost. Default: 'event'.
   */
  readonly detail?: 'event' | 'data' | undefined
  /**
   * Whether the publisher asks once for each event bus that it is there: EventBridge confirms events to a bus that does not exist, and drops them. Needs the permission `events:DescribeEventBus`; without
   * it nothing is checked. Default: true.
   */
  readonly checkBus?: boolean | undefined
  /** The most bytes of an entry, and of all entries of a request. Default: 1,000,000. */
  readonly maxEventSize?: number | undefined
  /** Milliseconds that a request may take, with the attempts of the SDK. Default: 10,000. */
  readonly timeout?: number | undefined
  readonly runtime?: Runtime | undefined
}

/**
 * Puts events on a bus of EventBridge: `Source` is the event's source, `DetailType` its type. The client is an `EventBridge` of `@aws-sdk/client-eventbridge`. A message that is `ok` was accepted by
 * EventBridge, which sends it to the targets of the rules that match; that is no promise that one does. Each message has its own result. EventBridge keeps no order, and does not drop repeats.
 */
export function eventBridgePublisher(client: EventBridgeClient, options: EventBridgePublisherOptions = {}): Publisher & Closable {
  const {
    bus = (destination) => destination,
    detail = 'event',
    checkBus = true,
    maxEventSize = 1_000_000,
    timeout = 10_000,
    runtime = systemRuntime,
    ...unknown
  } = options
  rejectUnknownOptions('An EventBridge publisher', unknown)
  checkClient(client, 'EventBridge', ['putEvents', 'describeEventBus'])
  checkFunction('bus', bus)
  checkChoice('detail', detail, ['event', 'data'])
  if (typeof checkBus !== 'boolean') throw new InvalidOptionError('checkBus', 'must be true or false.')
  checkCount('maxEventSize', maxEventSize, { min: 1024 })
  checkDuration('timeout', timeout, { min: 1 })
  return createPublisher(new EventBridgeDriver(client, { bus, detail, checkBus, maxEventSize, timeout, runtime }))
}

interface PublisherSettings {
  readonly bus: (destination: string, message: RawMessage) => string
  readonly detail: 'event' | 'data'
  readonly checkBus: boolean
  readonly maxEventSize: number
  readonly timeout: number
  readonly runtime: Runtime
}

interface BusEvent {
  readonly entry: EventBridgeEntry
  readonly size: number
  readonly group: undefined
}

class EventBridgeDriver implements PublisherDriver<BusEvent> {
  readonly broker = 'EventBridge'
  readonly system = 'aws.eventbridge'
  readonly routeName = 'event bus'
  // Every call ends by its time limits.
  readonly closeTimeout = Number.POSITIVE_INFINITY
  readonly #client: EventBridgeClient
  readonly #settings: PublisherSettings
  readonly #found = new Set<string>()

  constructor(client: EventBridgeClient, settings: PublisherSettings) {
    this.#client = client
    this.#settings = settings
  }

  route(destination: string, message: RawMessage): string {
    return checkBusName(this.#settings.bus(destination, message))
  }

  write(message: RawMessage, bus: string): BusEvent | PublishFailure {
    const { maxEventSize } = this.#settings
    const { source, type, time } = message
    const target = targetOf(bus)
    if (source === undefined || source === '' || type === undefined || type === '') {
      return permanentFailure(`A message to ${target} has no source or no type, which EventBridge requires. Give it both.`)
    }
    if (source.length > 256 || type.length > 128) {
      const text = `its source has ${source.length} characters, of at most 256, and its type ${type.length}, of at most 128`
      return permanentFailure(`EventBridge cannot carry a message to ${target}: ${text}.`)
    }
    const Detail = this.#detailOf(message)
    const entry = { EventBusName: bus, Source: source, DetailType: type, Detail, ...(time === undefined ? {} : { Time: time }) }
    const size = sizeOf(entry)
    return size > maxEventSize ? tooLarge(target, size, maxEventSize) : { entry, size, group: undefined }
  }

  async send(messages: readonly Outgoing<BusEvent>[], { signal }: SendOptions): Promise<void> {
    const { timeout, runtime, maxEventSize } = this.#settings
    for (const [bus, ofBus] of groupBy(messages, ({ item }) => item.entry.EventBusName)) {
      const missing = await this.#missing(bus, signal)
      if (missing !== undefined) {
        for (const message of ofBus) message.settle(missing)
        continue
      }
      await sendBatches(ofBus, {
        ...{ target: targetOf(bus), maxSize: maxEventSize, onePerGroup: false, signal },
        send: async (events) => {
          const input = { Entries: events.map(({ entry }) => entry) }
          const { Entries = [] } = await request(runtime, timeout, signal, (options) => this.#client.putEvents(input, options))
          return events.map((_, index) => failureOf(Entries[index]))
        },
      })
    }
  }

  #detailOf(message: RawMessage): string {
    if (this.#settings.detail === 'event') return JSON.stringify(message)
    const text = jsonObjectText(message.data)
    if (text !== undefined) return text
    throw new Error("The data is no JSON object, which EventBridge requires. Use detail: 'event', which carries any data.")
  }

  /** The failure for a bus that does not exist. Asked until it exists. */
  async #missing(bus: string, signal: AbortSignal): Promise<PublishFailure | undefined> {
    const { checkBus, timeout, runtime } = this.#settings
    if (!checkBus || this.#found.has(bus)) return undefined
    try {
      await request(runtime, timeout, signal, (options) => this.#client.describeEventBus({ Name: bus }, options))
    } catch (error) {
      if (isMissing(error)) return requestFailed(targetOf(bus), error)
      // Without the permission nothing is checked. Whatever else is wrong, putEvents shows it, and the next call asks again.
      if (!isDenied(error)) return undefined
    }
    this.#found.add(bus)
    return undefined
  }
}

/** The text of a JSON object; `undefined` for other data. The error of the parser is not passed on, because it quotes the data. */
function jsonObjectText(data: Uint8Array): string | undefined {
  try {
    const text = strictUtf8.decode(data)
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? text : undefined
  } catch {
    return undefined
  }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** A result without an event id or an error code is no confirmation. */
function failureOf(
  result: {
    readonly EventId?: string | undefined
    readonly ErrorCode?: string | undefined
    readonly ErrorMessage?: string | undefined
  } = {},
): AwsBatchFailure | undefined {
  const { EventId, ErrorCode = 'Unanswered', ErrorMessage } = result
  if (EventId !== undefined && result.ErrorCode === undefined) return undefined
  // An invalid name of the bus is a mistake in the destination.
  const isOfBus = /EventBus/i.test(ErrorMessage ?? '')
  return { Code: ErrorCode, Message: ErrorMessage, SenderFault: entryFaults.test(ErrorCode) && !isOfBus }
}

/** The codes that blame the entry. The others, such as `ThrottlingException` and `InternalFailure`, may pass. */
const entryFaults = /^(MalformedDetail|InvalidArgument|ValidationException|ValidationError|RedactionFailure)$/

const busName = /^(arn:[a-z0-9-]+:events:[a-z0-9-]+:\d{12}:event-bus\/)?[\w./-]{1,256}$/

function checkBusName(bus: unknown): string {
  if (typeof bus === 'string' && busName.test(bus)) return bus
  throw new InvalidOptionError('bus', `must be the name or the ARN of an event bus; it is ${JSON.stringify(bus)}.`)
}

/** As EventBridge counts. */
function sizeOf({ Source, DetailType, Detail, Time }: EventBridgeEntry): number {
  return (Time === undefined ? 0 : 14) + Buffer.byteLength(Source) + Buffer.byteLength(DetailType) + Buffer.byteLength(Detail)
}

function targetOf(bus: string): string {
  return `event bus '${bus}'`
}
