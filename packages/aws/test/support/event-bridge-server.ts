import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { EventBridge } from '@aws-sdk/client-eventbridge'
import { type HttpServer, type ReceivedRequest, startHttpServer } from './http-server.ts'
import { clientSettings } from './world.ts'

/** An entry as the SDK has written it. */
interface PutEntry {
  readonly EventBusName?: string
  readonly Source?: string
  readonly DetailType?: string
  readonly Detail?: string
  /** Seconds since 1970. */
  readonly Time?: number
}

interface EntryRefusal {
  readonly ErrorCode?: string
  readonly ErrorMessage?: string
}

/** Receives the events of a bus, as a target of a rule that matches all. */
type Deliver = (event: string) => Promise<void>

export interface EventBridgeServer extends AsyncDisposable {
  readonly url: string
  readonly client: EventBridge
  /** The entries of each request to `PutEvents` that was valid. */
  readonly puts: readonly (readonly PutEntry[])[]
  /** The names of all operations so far. */
  readonly operations: readonly string[]
  /** Creates an event bus. */
  addBus(name: string, deliver?: Deliver): void
  /** What happens to valid entries: the function returns why an entry fails, or `undefined`. An empty refusal is an answer that says nothing. */
  refuseEntries(refuse: (entry: PutEntry) => EntryRefusal | undefined): void
  /** The error code with which requests of an operation fail; `undefined`: they succeed. */
  failRequests(operation: 'PutEvents' | 'DescribeEventBus', code: string | undefined): void
}

class RequestRefused extends Error {
  readonly code: string

  constructor(code: string, text: string) {
    super(text)
    this.code = code
  }
}

const invalid = (text: string) => new RequestRefused('ValidationException', text)
const knownFields = ['EventBusName', 'Source', 'DetailType', 'Detail', 'Time', 'Resources', 'TraceHeader']
/** AWS: "the total entry size must be less than 1MB". */
const maxTotalSize = 1_000_000

/**
 * Stands in for EventBridge, of which there is no emulator on npm. It speaks the JSON protocol of AWS to the real SDK and checks what AWS documents of `PutEvents`: headers,
 * one to ten entries, their total size, required fields, lengths, and that the detail is a JSON object. As AWS, it confirms and drops events to a bus that does not exist.
 */
export async function startEventBridge(): Promise<EventBridgeServer> {
  const buses = new Map<string, Deliver>()
  const puts: PutEntry[][] = []
  const operations: string[] = []
  const failing = new Map<string, string>()
  let refuse: (entry: PutEntry) => EntryRefusal | undefined = () => undefined

  async function putEvents(input: { readonly Entries?: unknown }): Promise<unknown> {
    const entries = checkRequest(input)
    puts.push([...entries])
    const results: object[] = []
    for (const entry of entries) {
      const refusal = checkEntry(entry) ?? refuse(entry)
      const EventId = randomUUID()
      if (refusal === undefined) await buses.get(nameOf(entry.EventBusName))?.(envelopeOf(entry, EventId))
      results.push(refusal ?? { EventId })
    }
    return { FailedEntryCount: results.filter((result) => !('EventId' in result)).length, Entries: results }
  }

  function describeEventBus({ Name = 'default' }: { readonly Name?: string }): unknown {
    if (!buses.has(nameOf(Name))) throw new RequestRefused('ResourceNotFoundException', `Event bus ${Name} does not exist.`)
    return { Name, Arn: `arn:aws:events:eu-central-1:000000000000:event-bus/${Name}` }
  }

  async function answer(request: ReceivedRequest, response: ServerResponse): Promise<void> {
    response.setHeader('content-type', 'application/x-amz-json-1.1')
    try {
      const operation = operationOf(request)
      operations.push(operation)
      const code = failing.get(operation)
      if (code !== undefined) throw new RequestRefused(code, 'Refused by the test.')
      const input = JSON.parse(request.body.toString())
      response.end(JSON.stringify(operation === 'PutEvents' ? await putEvents(input) : describeEventBus(input)))
    } catch (error) {
      if (!(error instanceof RequestRefused)) throw error
      response.statusCode = error.code === 'InternalException' ? 500 : 400
      response.end(JSON.stringify({ __type: error.code, message: error.message }))
    }
  }

  const server: HttpServer = await startHttpServer(answer)
  const client = new EventBridge(clientSettings(server.url))
  return {
    url: server.url,
    client,
    puts,
    operations,
    addBus: (name, deliver = () => Promise.resolve()) => void buses.set(name, deliver),
    refuseEntries: (judge) => {
      refuse = judge
    },
    failRequests: (operation, code) => void (code === undefined ? failing.delete(operation) : failing.set(operation, code)),
    async [Symbol.asyncDispose]() {
      client.destroy()
      await server[Symbol.asyncDispose]()
    },
  }
}

function operationOf({ method, path, headers }: ReceivedRequest): string {
  const operation = /^AWSEvents\.(PutEvents|DescribeEventBus)$/.exec(String(headers['x-amz-target']))?.[1]
  if (method !== 'POST' || path !== '/' || operation === undefined)
    throw new RequestRefused('UnknownOperationException', 'Unknown operation.')
  if (headers['content-type'] !== 'application/x-amz-json-1.1') throw new RequestRefused('SerializationException', 'Wrong content type.')
  if (headers.authorization?.includes('/eu-central-1/events/aws4_request') !== true) {
    throw new RequestRefused('MissingAuthenticationToken', 'The request is not signed.')
  }
  return operation
}

/** What fails the whole request. */
function checkRequest({ Entries: entries }: { readonly Entries?: unknown }): readonly PutEntry[] {
  if (!Array.isArray(entries) || entries.length === 0) throw invalid("Value at 'entries' must have length greater than or equal to 1")
  if (entries.length > 10) throw invalid("Value at 'entries' must have length less than or equal to 10")
  for (const entry of entries as readonly object[]) {
    const unknown = Object.keys(entry).find((field) => !knownFields.includes(field))
    if (unknown !== undefined) throw new RequestRefused('SerializationException', `Unknown field ${unknown}.`)
  }
  const all = entries as readonly PutEntry[]
  if (all.reduce((size, entry) => size + sizeOf(entry), 0) > maxTotalSize)
    throw invalid('Total size of the entries in the request is over the limit.')
  if (all.every((entry) => missingField(entry) !== undefined)) throw invalid('No entry has a Source, a DetailType and a Detail.')
  return all
}

/** What fails one entry. */
function checkEntry(entry: PutEntry): EntryRefusal | undefined {
  const missing = missingField(entry)
  if (missing !== undefined)
    return { ErrorCode: 'InvalidArgument', ErrorMessage: `Parameter ${missing} is not valid. Reason: ${missing} is a required argument.` }
  if ((entry.DetailType ?? '').length > 128) return { ErrorCode: 'InvalidArgument', ErrorMessage: 'Parameter DetailType is not valid.' }
  if (entry.Time !== undefined && typeof entry.Time !== 'number')
    return { ErrorCode: 'InvalidArgument', ErrorMessage: 'Parameter Time is not valid.' }
  return isJsonObject(entry.Detail ?? '') ? undefined : { ErrorCode: 'MalformedDetail', ErrorMessage: 'Detail is malformed.' }
}

function missingField(entry: PutEntry): string | undefined {
  return (['Source', 'DetailType', 'Detail'] as const).find((field) => typeof entry[field] !== 'string' || entry[field] === '')
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

/** As AWS documents it. */
function sizeOf({ Time, Source = '', DetailType = '', Detail = '' }: PutEntry): number {
  return (Time === undefined ? 0 : 14) + Buffer.byteLength(Source) + Buffer.byteLength(DetailType) + Buffer.byteLength(Detail)
}

function nameOf(bus: string = 'default'): string {
  return bus.replace(/^arn:.*:event-bus\//, '')
}

/** The event as a target receives it. The detail is not parsed and written again, which would change its numbers. */
function envelopeOf({ Source, DetailType, Detail = '', Time = Date.now() / 1000 }: PutEntry, id: string): string {
  const time = `${new Date(Time * 1000).toISOString().slice(0, 19)}Z`
  const head = JSON.stringify({
    version: '0',
    id,
    'detail-type': DetailType,
    source: Source,
    account: '000000000000',
    time,
    region: 'eu-central-1',
    resources: [],
  })
  return `${head.slice(0, -1)},"detail":${Detail}}`
}
