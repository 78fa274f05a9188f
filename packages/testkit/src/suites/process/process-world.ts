import assert from 'node:assert/strict'
import {
  type Context,
  defineEvent,
  type EventDefinition,
  type Handler,
  isAckordError,
  Message,
  type Middleware,
  rootContext,
} from '@ackord/core'
import {
  defineProcess,
  type IgnoredEvent,
  type NewOutboxRecord,
  type ProcessAdmin,
  type ProcessOptions,
  type ProcessRecord,
  type ProcessStep,
  type ProcessStore,
  type ProcessTimeout,
  when,
} from '@ackord/outbox'
import { memoryProcesses } from '../../helpers/memory-processes.ts'
import { MemoryStore } from '../../helpers/memory-store.ts'
import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import type { Scenario } from '../../run/scenario.ts'

/** A process of the operating system that uses the store. */
export interface ProcessPeer {
  readonly store: ProcessStore & ProcessAdmin
  /** Inbox, transaction and outbox of the store. Outputs without a destination of their own are for `commands`. */
  transactional(consumer: string): Middleware
}

/** A separate store for one scenario, initially empty. Disposing it removes everything it created. */
export interface ProcessWorld extends ProcessPeer, AsyncDisposable {
  /** Another process on the same data: with its own connections, if there are connections. */
  another(): Promise<ProcessPeer>
  /** The committed records in the outbox, oldest first. */
  records(): Promise<readonly NewOutboxRecord[]>
  /** Puts the store into the state of `duration` milliseconds later: moves the ends of all finished instances back, if it has its own clock. */
  advance(duration: number): Promise<void>
  /** Deletes forgotten instances. Resolves to the number. Absent where they expire by themselves. */
  clean?(): Promise<number>
}

export type OpenProcessWorld = () => Promise<ProcessWorld>
export type ProcessScenario = Scenario<OpenProcessWorld>

/** The in-memory store with a virtual clock: an example for other worlds. */
export async function openMemoryProcessWorld(): Promise<ProcessWorld> {
  const runtime = new VirtualRuntime()
  const memory = new MemoryStore({ runtime })
  const peer: ProcessPeer = {
    store: memoryProcesses(memory, { runtime }),
    transactional: (consumer) => memory.transactional({ consumer, destination: 'commands' }),
  }
  return {
    ...peer,
    another: async () => peer,
    records: async () => (await memory.outbox.list({}, { limit: 1000 })).records,
    advance: (duration) => runtime.advance(duration),
    async clean() {
      const table = memory.executor()
      const forgotten = table.entries().filter(([, value]) => ((value as { expiresAt?: number }).expiresAt ?? Infinity) <= runtime.now())
      for (const [name] of forgotten) table.delete(name)
      return forgotten.length
    },
    [Symbol.asyncDispose]: async () => {},
  }
}

/** What the step does, in this order. `set` and `cancel` are for the timeout `t`. */
export type Action = 'send' | 'set' | 'cancel' | 'complete' | 'fail' | 'state'

/** The data of the events of scenarios: they say themselves what their step does. */
export interface TestData {
  readonly of: string
  readonly actions: readonly Action[]
  /** With `state`: replaces the state's text. */
  readonly text?: string | undefined
}

/** The names of the messages that an instance has reacted to, in their order, and a text. */
export interface TestState {
  log: string[]
  text: string
}

export const begun: EventDefinition<TestData> = defineEvent<TestData>('test.begun')
export const changed: EventDefinition<TestData> = defineEvent<TestData>('test.changed')
const sent = defineEvent<{ readonly by: string }>('test.sent')

export const keep = 3_600_000
export const delay = 60_000

function act(state: TestState, name: string, { actions, text }: Omit<TestData, 'of'>, step: ProcessStep): TestState {
  const after = { ...state, log: [...state.log, step.isNew ? `${name}, new` : name] }
  for (const action of actions) {
    if (action === 'send') step.send(sent({ by: name }))
    else if (action === 'set') step.timeout('t', delay)
    else if (action === 'cancel') step.cancelTimeout('t')
    else if (action === 'complete') step.complete()
    else if (action === 'state') after.text = text ?? ''
  }
  if (actions.includes('fail')) throw new Error(`${name} fails`)
  return after
}

export interface TestProcess {
  /** Handles a message once, as its delivery would. Rejects if it is to be redelivered. Conflicts are redelivered here. */
  deliver(message: Message, peer?: ProcessPeer): Promise<void>
  /** The events that were ignored, with the reason. */
  readonly ignored: readonly Pick<IgnoredEvent, 'id' | 'reason'>[]
}

/** The process of the scenarios, on a world. */
export function testProcess(world: ProcessWorld, options: Partial<ProcessOptions<TestState>> = {}): TestProcess {
  const ignored: IgnoredEvent[] = []
  const definition = defineProcess<TestState>({
    name: 'test',
    state: () => ({ log: [], text: '' }),
    startedBy: [when(begun, (state, { id = '', data }, step) => act(state, id, data, step))],
    on: [when(changed, (state, { id = '', data }, step) => act(state, id, data, step))],
    timeouts: { t: (state, _message, step) => act(state, 'timeout', { actions: ['send'] }, step) },
    correlate: ({ data }) => (data as TestData).of,
    destination: 'test-process',
    source: '/test',
    keep,
    onIgnored: (one) => ignored.push(one),
    ...options,
  })

  function handlerOf(peer: ProcessPeer, type: string | undefined): Handler {
    const handler = definition.handlers(peer.store).find((one) => one.type === type)
    return handler ?? assert.fail(`there is no handler for ${type}`)
  }

  return {
    ignored,
    async deliver(message, peer = world) {
      const handler = handlerOf(peer, message.type)
      const run = peer.transactional(definition.name)((given, context) => handler.handle(given, context))
      for (;;) {
        // A delivery has its own message, with an acking of its own.
        const delivery = new Message(message.data, message.attributes, { acking: { ack() {}, nack() {}, reject() {} } })
        try {
          await run(delivery, delivery.context(rootContext()))
          return
        } catch (error) {
          if (!isAckordError(error, 'ACKORD_TRANSACTION_CONFLICT') && !isAckordError(error, 'ACKORD_INBOX_BUSY')) throw error
        }
      }
    },
  }
}

type Create = EventDefinition<TestData>

/** An event of the instance `of`, `i1` by default. */
export function event(create: Create, id: string, actions: readonly Action[] = [], more: { of?: string; text?: string } = {}): Message {
  const { of = 'i1', text } = more
  return create({ of, actions, text }, { id, source: '/shop', specversion: '1.0' })
}

/** Does work in a transaction of the store, as a handler does. */
export async function inTransaction(peer: ProcessPeer, id: string, work: (context: Context) => Promise<void>): Promise<void> {
  const message = new Message(null, { id, type: 'test', source: '/shop', specversion: '1.0' })
  await peer.transactional('direct')(async (_message, context) => {
    await work(context)
    return []
  })(message, message.context(rootContext()))
}

/** The state of the instance `i1`, or of another one; `undefined` if there is none. */
export async function stateOf(peer: ProcessPeer, id = 'i1'): Promise<TestState | undefined> {
  const found = await peer.store.get({ process: 'test', id })
  // Written by the steps above.
  return found === undefined ? undefined : (JSON.parse(found.state) as TestState)
}

export async function found(peer: ProcessPeer, id = 'i1'): Promise<ProcessRecord> {
  return (await peer.store.get({ process: 'test', id })) ?? assert.fail(`there is no instance '${id}'`)
}

/** Asserts that the instance has reacted to these messages, in this order, and to no others. */
export async function assertLog(peer: ProcessPeer, expected: readonly string[], id = 'i1'): Promise<void> {
  assert.deepEqual((await stateOf(peer, id))?.log, expected, `the messages of '${id}'`)
}

/** The messages that steps have sent, by the name of the message that they reacted to. */
export async function sentBy(world: ProcessWorld): Promise<readonly string[]> {
  const records = (await world.records()).filter(({ message }) => message.type === 'test.sent')
  for (const { destination } of records) assert.equal(destination, 'commands')
  return records.map(({ message }) => (dataOf(message) as { readonly by: string }).by)
}

/** The timeouts in the outbox as messages, oldest first. */
export async function timeoutsOf(world: ProcessWorld): Promise<readonly Message<ProcessTimeout>[]> {
  const records = (await world.records()).filter(({ message }) => message.type === 'test.timeout')
  for (const { destination } of records) assert.equal(destination, 'test-process', 'the destination of a timeout')
  return records.map(({ message }) => new Message(dataOf(message) as ProcessTimeout, message.attributes))
}

/** The nth timeout in the outbox. */
export async function timeout(world: ProcessWorld, index = 0): Promise<Message<ProcessTimeout>> {
  return (await timeoutsOf(world))[index] ?? assert.fail(`there is no timeout ${index} in the outbox`)
}

function dataOf({ data }: NewOutboxRecord['message']): unknown {
  return JSON.parse(new TextDecoder().decode(data))
}
