import { defineEvent, Message, rootContext, type StandardSchema } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { memoryProcesses } from '../../../testkit/src/helpers/memory-processes.ts'
import { MemoryStore } from '../../../testkit/src/helpers/memory-store.ts'
import { defineProcess, type IgnoredEvent, type ProcessOptions, type ProcessStep, type ProcessStore, when } from '../../src/index.ts'

const placed = defineEvent<{ readonly order: string }>('order.placed')
const paid = defineEvent<{ readonly order: string; readonly amount: number }>('order.paid')
const shipped = defineEvent<{ readonly order: string }>('order.shipped')

interface State {
  paid: number
}

const options: ProcessOptions<State> = {
  name: 'order',
  state: () => ({ paid: 0 }),
  startedBy: [when(placed, (state) => state)],
  on: [when(paid, (state, { data }) => ({ paid: state.paid + data.amount }))],
  correlate: ({ data }) => (data as { order: string }).order,
}

/** The definition with changes, as someone without types might write it. */
const defining = (changes: object) => () => defineProcess({ ...options, ...changes })

describe('defineProcess()', () => {
  it.each([
    ['name', { name: '' }],
    ['name', { name: 'a'.repeat(256) }],
    ['name', { name: 'a\0b' }],
    ['state', { state: { paid: 0 } }],
    ['startedBy', { startedBy: [] }],
    ['startedBy', { startedBy: placed }],
    ['on[0]', { on: [placed] }],
    ['on[0]', { correlate: undefined, startedBy: [when(placed, (state: State) => state, { correlate: ({ data }) => data.order })] }],
    ['startedBy and on', { on: [when(placed, (state: State) => state)] }],
    ['name', { on: [when('order.timeout', (state: State) => state)] }],
    ['destination', { timeouts: { late: (state: State) => state } }],
    ['timeouts.late', { timeouts: { late: 5 }, destination: 'd' }],
    ['onMissing', { onMissing: 'drop' }],
    ['keep', { keep: 0 }],
    ['version', { version: 0 }],
    ['migrate', { version: 2 }],
    ['schema', { schema: {} }],
    ['onIgnored', { onIgnored: true }],
    ['defineProcess()', { timeout: 5 }],
  ])('names an invalid option: %s', (option, changes) => {
    expect(defining(changes)).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option }))
  })

  it('rejects invalid reactions and stores', () => {
    const step = (state: State) => state
    expect(() => when({} as typeof placed, step)).toThrow(/must be created by defineEvent/)
    expect(() => when(placed, undefined as unknown as typeof step)).toThrow(/The step of when/)
    expect(() => when(placed, step, { correlation: step } as object)).toThrow(/has no option 'correlation'/)
    expect(() => defineProcess(options).handlers({} as ProcessStore)).toThrow(/store\.load/)
  })

  it('makes a handler for each event, and one for its timeouts', () => {
    const handlers = defineProcess(options).handlers(memoryProcesses(new MemoryStore()))
    expect(handlers.map(({ type }) => type)).toEqual(['order.placed', 'order.paid', 'order.timeout'])
  })
})

/** A process on a store in memory. */
function service(changes: Partial<ProcessOptions<State>> = {}) {
  const store = new MemoryStore()
  const processes = memoryProcesses(store)
  const ignored: IgnoredEvent[] = []
  const definition = defineProcess({ ...options, source: '/order-process', onIgnored: (event) => ignored.push(event), ...changes })
  const run = store.transactional({ consumer: 'order', destination: 'commands' })
  let count = 0

  async function deliver(message: Message): Promise<void> {
    count += 1
    const handler = definition.handlers(processes).find(({ type }) => type === message.type)
    if (handler === undefined) throw new Error(`There is no handler for ${message.type}.`)
    const whole = message.withAttributes({ id: `m${count}`, source: '/shop', specversion: '1.0' })
    await run((given, context) => handler.handle(given, context))(whole, whole.context(rootContext()))
  }

  async function stateOf(id = 'o1'): Promise<unknown> {
    const found = await processes.get({ process: 'order', id })
    return found && JSON.parse(found.state)
  }

  async function sent() {
    const { records } = await store.outbox.list({}, { limit: 100 })
    return records.map(({ destination, message, state }) => ({ type: message.type, destination, state }))
  }
  return { store, processes, ignored, deliver, stateOf, sent, definition }
}

const order = 'o1'

describe('an event', () => {
  it('of no instance is retried, rejected or ignored, as onMissing says', async () => {
    const event = paid({ order, amount: 1 })
    await expect(service().deliver(event)).rejects.toMatchObject({ code: 'ACKORD_PROCESS_NOT_STARTED', retryable: true })
    await expect(service({ onMissing: 'reject' }).deliver(event)).rejects.toMatchObject({ retryable: false })
    const { deliver, ignored } = service({ onMissing: 'ignore' })
    await deliver(event)
    expect(ignored).toMatchObject([{ process: 'order', id: order, reason: 'missing' }])
  })

  it.each([
    ['nothing', undefined],
    ['an empty text', ''],
    ['a number', 5],
    ['a text that is too long', 'x'.repeat(256)],
    ['a NUL character', 'a\0'],
    ['half a character', '\ud800'],
  ])('whose instance is %s goes to the dead letter', async (_, id) => {
    const { deliver } = service({ correlate: () => id as string })
    await expect(deliver(placed({ order }))).rejects.toMatchObject({ code: 'ACKORD_PROCESS_ID', retryable: false })
  })

  it('may have its own correlation', async () => {
    const by = when(shipped, (_: State) => ({ paid: 99 }), { correlate: ({ data }) => data.order.slice('shipment-'.length) })
    const { deliver, stateOf } = service({ on: [by] })
    await deliver(placed({ order }))
    await deliver(shipped({ order: `shipment-${order}` }))
    expect(await stateOf()).toEqual({ paid: 99 })
  })

  it('is not handled without an inbox', async () => {
    const { store, definition, processes } = service()
    const [handler] = definition.handlers(processes)
    const message = new Message({ order }, { id: 'm1', type: 'order.placed', source: '/shop' })
    const run = store.transactionMiddleware()((given, context) => handler?.handle(given, context) ?? Promise.resolve([]))
    await expect(run(message, message.context(rootContext()))).rejects.toMatchObject({ code: 'ACKORD_MIDDLEWARE_ORDER' })
  })
})

describe('a step', () => {
  const steps = (step: (state: State, step: ProcessStep) => unknown, changes: Partial<ProcessOptions<State>> = {}) =>
    service({
      startedBy: [when(placed, (state, _message, given) => step(state, given) as State)],
      timeouts: { late: (state) => state },
      destination: 'order-process',
      ...changes,
    })

  it('may change the given state, return another one, or leave it', async () => {
    for (const [step, expected] of [
      [(state: State) => void Object.assign(state, { paid: 5 }), 5],
      [() => ({ paid: 6 }), 6],
      [async () => ({ paid: 7 }), 7],
      [() => undefined, 0],
    ] as const) {
      const { deliver, stateOf } = steps(step)
      await deliver(placed({ order }))
      expect(await stateOf()).toEqual({ paid: expected })
    }
  })

  it('sends messages at once, later, and elsewhere', async () => {
    const { deliver, sent } = steps((_, step) => {
      step.send(shipped({ order }))
      step.send(shipped({ order }), { delay: 60_000 })
      step.send(shipped({ order }, { delay: 60_000 }), { destination: 'elsewhere' })
      step.timeout('late', 30_000)
    })
    await deliver(placed({ order }))
    expect((await sent()).map(({ type, destination, state }) => [type, destination, state])).toEqual([
      ['order.shipped', 'commands', 'ready'],
      ['order.shipped', 'commands', 'waiting'],
      ['order.shipped', 'elsewhere', 'waiting'],
      ['order.timeout', 'order-process', 'waiting'],
    ])
  })

  it.each([
    ['an unknown timeout', (step: ProcessStep) => step.timeout('unknown', 5), 'ACKORD_INVALID_OPTION'],
    ['a negative delay', (step: ProcessStep) => step.timeout('late', -5), 'ACKORD_INVALID_OPTION'],
    ['what is no message', (step: ProcessStep) => step.send({} as Message), 'ACKORD_INVALID_OPTION'],
    [
      'a timeout of a finished process',
      (step: ProcessStep) => {
        step.complete()
        step.timeout('late', 5)
      },
      'ACKORD_INVALID_OUTPUT',
    ],
  ])('with %s fails, and leaves nothing', async (_, wrong, code) => {
    const { deliver, stateOf, sent } = steps((_state, step) => wrong(step))
    await expect(deliver(placed({ order }))).rejects.toMatchObject({ code })
    expect([await stateOf(), await sent()]).toEqual([undefined, []])
  })

  it('cannot be used after it has ended', async () => {
    const late: ProcessStep[] = []
    const { deliver } = steps((_, step) => void late.push(step))
    await deliver(placed({ order }))
    expect(late).toHaveLength(1)
    for (const call of [
      () => late[0]?.send(shipped({ order })),
      () => late[0]?.timeout('late', 1),
      () => late[0]?.cancelTimeout('late'),
      () => late[0]?.complete(),
    ]) {
      expect(call).toThrow(expect.objectContaining({ code: 'ACKORD_SCOPE_ENDED' }))
    }
  })

  it('fails if its state has no JSON', async () => {
    for (const state of [() => {}, { paid: 5n }]) {
      await expect(steps(() => state).deliver(placed({ order }))).rejects.toMatchObject({ code: 'ACKORD_PROCESS_STATE' })
    }
  })
})

describe('a stored state', () => {
  /** A process whose state an earlier release has stored. */
  async function after(changes: Partial<ProcessOptions<State>>, stored: Partial<ProcessOptions<State>> = {}) {
    const { store, deliver } = service(stored)
    await deliver(placed({ order }))
    const later = service(changes)
    return {
      pay: async () => {
        const { definition } = later
        const handler = definition.handlers(memoryProcesses(store)).find(({ type }) => type === 'order.paid')
        const message = paid({ order, amount: 5 }, { id: crypto.randomUUID(), source: '/shop' })
        const run = store.transactional({ consumer: 'order', destination: 'commands' })
        await run((given, context) => handler?.handle(given, context) ?? Promise.resolve([]))(message, message.context(rootContext()))
        return await memoryProcesses(store).get({ process: 'order', id: order })
      },
    }
  }

  it('of an older version is migrated, and stored in the new one', async () => {
    const migrate = (state: unknown, version: number) => ({ paid: (state as State).paid + 1000 * version })
    const { pay } = await after({ version: 2, migrate })
    expect(await pay()).toMatchObject({ state: '{"paid":1005}', stateVersion: 2 })
    expect(await pay()).toMatchObject({ state: '{"paid":1010}', stateVersion: 2 })
  })

  it('of a newer version is left to the release that knows it', async () => {
    const { pay } = await after({}, { version: 2, migrate: (state) => state as State })
    await expect(pay()).rejects.toMatchObject({
      code: 'ACKORD_PROCESS_STATE',
      retryable: true,
      message: expect.stringContaining('has version 2'),
    })
  })

  it('is validated by the schema', async () => {
    const schema: StandardSchema<State> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value) => ((value as State).paid >= 0 ? { value: value as State } : { issues: [{ message: 'must not be negative' }] }),
      },
    }
    expect(await (await after({ schema })).pay()).toMatchObject({ state: '{"paid":5}' })
    const { pay } = await after({ schema }, { state: () => ({ paid: -1 }) })
    await expect(pay()).rejects.toMatchObject({
      code: 'ACKORD_PROCESS_STATE',
      retryable: true,
      cause: expect.objectContaining({ message: expect.stringContaining('must not be negative') }),
    })
  })
})

describe('a timeout', () => {
  const waiting = (timeouts: ProcessOptions<State>['timeouts']) =>
    service({
      startedBy: [when(placed, (_state, _message, step) => step.timeout('late', 5))],
      timeouts,
      destination: 'order-process',
    })

  it('of a release that is gone is kept until a release knows it', async () => {
    const timeouts: Record<string, (state: State) => State> = { late: (state) => state }
    const { deliver, store, processes } = waiting(timeouts)
    await deliver(placed({ order }))
    const [record] = (await store.outbox.list({}, { limit: 1 })).records
    const due = new Message(JSON.parse(new TextDecoder().decode(record?.message.data)), { type: 'order.timeout' })
    const later = defineProcess({ ...options })
      .handlers(processes)
      .find(({ type }) => type === 'order.timeout')
    const run = store.transactional({ consumer: 'order', destination: 'commands' })
    const whole = due.withAttributes({ id: 'due', source: '/order-process' })
    const handling = run((given, context) => later?.handle(given, context) ?? Promise.resolve([]))(whole, whole.context(rootContext()))
    await expect(handling).rejects.toMatchObject({ code: 'ACKORD_PROCESS_STATE', retryable: true })
    await deliver(due)
  })

  it.each([[null], [{}], [{ id: 'o1', timeout: 'late' }], [{ id: 'o\0', timeout: 'late', token: 't' }], ['late']])(
    'with the data %j goes to the dead letter',
    async (data) => {
      const { deliver } = waiting({ late: (state) => state })
      await expect(deliver(new Message(data, { type: 'order.timeout' }))).rejects.toMatchObject({
        code: 'ACKORD_WRONG_DATA',
        retryable: false,
      })
    },
  )
})
