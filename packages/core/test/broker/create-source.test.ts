import { describe, expect, it } from 'vitest'
import { createSource, type SourceDriver, type SourceSession } from '../../src/broker/create-source.ts'
import type { FailureState } from '../../src/broker/reconnect.ts'
import { exponentialBackoff, Message } from '../../src/index.ts'
import { PartPorts } from '../../src/ports/part-ports.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { deferred } from '../support/router-world.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

class FakeSession implements SourceSession {
  readonly #ended = deferred<unknown>()
  readonly #closed = deferred<void>()
  readonly ended = this.#ended.promise
  readonly closed = this.#closed.promise
  readonly push: (item: string) => void
  readonly log: string[] = []
  starting: Promise<void> = Promise.resolve()
  /** Whether a message is unsettled, so that leaving the iteration does not close the session. */
  busy = false

  constructor(push: (item: string) => void) {
    this.push = push
  }

  async start(): Promise<void> {
    this.log.push('start')
    await this.starting
  }

  async leave(): Promise<void> {
    this.log.push('leave')
    if (!this.busy) await this.close()
  }

  async close(): Promise<void> {
    this.log.push('close')
    this.lose(new Error('closed'))
  }

  settle(): void {
    this.busy = false
    void this.close()
  }

  lose(reason: unknown): void {
    this.#ended.resolve(reason)
    this.#closed.resolve()
  }

  end(reason: unknown): void {
    this.#ended.resolve(reason)
  }
}

function open(overrides: Partial<SourceDriver<string>> = {}) {
  const runtime = new VirtualRuntime()
  const logger = recordingLogger()
  const sessions: FakeSession[] = []
  const log: string[] = []
  const source = createSource<string>(
    () => ({
      backoff: exponentialBackoff({ initial: 100, max: 30_000, jitter: 0 }),
      runtime,
      logger,
      fields: { queue: 'orders' },
      lost: 'lost',
      restored: 'restored',
      open: (push) => {
        const session = new FakeSession(push)
        sessions.push(session)
        return session
      },
      messageOf: (item) => (item === 'gone' ? undefined : new Message(new Uint8Array(), { id: item })),
      started: () => void log.push('started'),
      finish: async () => void log.push('finish'),
      ...overrides,
    }),
    new PartPorts(),
  )
  const stop = new AbortController()
  const messages = source.messages({ signal: stop.signal })[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await messages.next()
    return done === true ? 'done' : value.id
  }
  return { runtime, logger, sessions, log, source, stop, messages, next }
}

describe('createSource()', () => {
  it('opens a session with the first next(), and yields the messages that it pushes', async () => {
    const { sessions, next, log, stop } = open()
    await settlePromises()
    expect(sessions).toHaveLength(0)
    const first = next()
    await settlePromises()
    sessions[0]?.push('gone')
    sessions[0]?.push('1')
    expect(await first).toBe('1')
    expect(log).toEqual(['started'])
    stop.abort()
    expect(await next()).toBe('done')
    await settlePromises()
    expect(sessions[0]?.log.slice(0, 3)).toEqual(['start', 'leave', 'close'])
    expect(log).toEqual(['started', 'finish'])
  })

  it('opens another session after a pause that grows, and logs the outage once', async () => {
    let down = true
    const opened: FakeSession[] = []
    const { runtime, logger, next } = open({
      open: (push) => {
        if (down) throw new Error('refused')
        const session = new FakeSession(push)
        opened.push(session)
        return session
      },
    })
    const first = next()
    await runtime.advance(100 + 200 + 399)
    expect(opened).toHaveLength(0)
    down = false
    await runtime.advance(1)
    opened[0]?.push('1')
    expect(await first).toBe('1')
    expect(logger.lines.map(({ level, text }) => [level, text])).toEqual([
      ['warn', 'lost'],
      ['info', 'restored'],
    ])

    // A session that is lost immediately does not shorten the pauses; a session that lasted does.
    opened[0]?.lose(new Error('lost'))
    await runtime.advance(799)
    expect(opened).toHaveLength(1)
    await runtime.advance(1)
    expect(opened).toHaveLength(2)
    await runtime.advance(10_000)
    opened[1]?.lose(new Error('lost'))
    await runtime.advance(100)
    expect(opened).toHaveLength(3)
  })

  it('leaves a session that has ended, and lets its messages be settled meanwhile', async () => {
    const { runtime, sessions, next, stop, log } = open()
    void next()
    await settlePromises()
    const [session] = sessions
    if (session === undefined) throw new Error('no session')
    session.busy = true
    session.end(new Error('cancelled'))
    await runtime.advance(100)
    expect(session.log).toEqual(['start', 'leave'])
    expect(sessions).toHaveLength(2)
    stop.abort()
    await settlePromises()
    expect(log).not.toContain('finish')
    session.settle()
    await settlePromises()
    expect(log).toContain('finish')
  })

  it('ends with the error that the driver returns, and passes it whether a session had worked before', async () => {
    const states: FailureState[] = []
    const { runtime, sessions, next } = open({
      fatalError: (reason, state) => {
        states.push(state)
        return (reason as Error).message === 'denied' ? new Error('not allowed') : undefined
      },
    })
    const waiting = next()
    await settlePromises()
    sessions[0]?.lose(new Error('lost'))
    await runtime.advance(100)
    await runtime.advance(10_000)
    sessions[1]?.lose(new Error('denied'))
    await expect(waiting).rejects.toThrow('not allowed')
    expect(await next()).toBe('done')
    expect(states).toEqual([
      { opening: false, wasOpen: true, wasSteady: false },
      { opening: false, wasOpen: true, wasSteady: true },
    ])
  })

  it('notifies the driver when opening failed, also when start() failed', async () => {
    const states: FailureState[] = []
    const { next } = open({
      open: (push) => {
        const session = new FakeSession(push)
        session.starting = Promise.reject(new Error('no queue'))
        return session
      },
      fatalError: (reason, state) => {
        states.push(state)
        return reason as Error
      },
    })
    await expect(next()).rejects.toThrow('no queue')
    expect(states).toEqual([{ opening: true, wasOpen: false, wasSteady: false }])
  })

  it('closes its sessions when it is disposed, although messages are not settled', async () => {
    const { sessions, next, source, log } = open()
    const waiting = next()
    await settlePromises()
    const [session] = sessions
    if (session === undefined) throw new Error('no session')
    session.busy = true
    await Promise.all([source[Symbol.asyncDispose](), source[Symbol.asyncDispose]()])
    expect(await waiting).toBe('done')
    expect(session.log.slice(0, 3)).toEqual(['start', 'leave', 'close'])
    expect(log).toContain('finish')
    expect(await next()).toBe('done')
    expect(sessions).toHaveLength(1)
  })

  it('leaves a session that was still being opened when the iteration ended', async () => {
    const opening = deferred<FakeSession>()
    const { next, stop, log } = open({ open: () => opening.promise })
    const waiting = next()
    await settlePromises()
    stop.abort()
    expect(await waiting).toBe('done')
    const session = new FakeSession(() => {})
    opening.resolve(session)
    await settlePromises()
    expect(session.log).toContain('leave')
    expect(session.log).toContain('close')
    expect(log).toContain('finish')
    expect(log).not.toContain('started')
  })
})
