import { describe, expect, it } from 'vitest'
import { PushedMessages } from '../../src/broker/pushed-messages.ts'
import { currentContext, enter, rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'

function open({ disposed = false } = {}) {
  const log: string[] = []
  const stop = new AbortController()
  const messages = new PushedMessages<string>(
    {
      start: () => void log.push(currentContext() === undefined ? 'start' : 'start in a context'),
      messageOf: (item) => (item === 'gone' ? undefined : new Message(new Uint8Array(), { id: item })),
      leave: async () => void log.push('leave'),
      isDisposed: () => disposed,
    },
    stop.signal,
  )
  const next = async () => {
    const { value, done } = await messages.next()
    return done === true ? 'done' : value.id
  }
  return { log, stop, messages, next }
}

describe('messages that a broker pushes', () => {
  it('begin with the first next(), outside of its context, and arrive in order', async () => {
    const { log, messages, next } = open()
    expect(log).toEqual([])
    const first = enter(rootContext(), next)
    expect(log).toEqual(['start'])
    messages.push('1', 'gone', '2')
    expect([await first, await next()]).toEqual(['1', '2'])
    const waiting = [next(), next()]
    messages.push('gone')
    messages.push('3', '4')
    expect(await Promise.all(waiting)).toEqual(['3', '4'])
    expect(log).toEqual(['start'])
  })

  it('may arrive by tens of thousands', async () => {
    const { messages, next } = open()
    const first = next()
    messages.push(...Array.from({ length: 80_000 }, (_, index) => String(index)))
    expect([await first, await next()]).toEqual(['0', '1'])
  })

  it.each(['abort', 'return', 'end'] as const)('end by %s: waiting readers end, and buffered messages are not yielded', async (by) => {
    const { log, stop, messages, next } = open()
    const waiting = [next(), next()]
    messages.push('1')
    expect(await waiting[0]).toBe('1')
    if (by === 'abort') stop.abort()
    else if (by === 'return') await messages.return()
    else await messages.end()
    expect(await waiting[1]).toBe('done')
    messages.push('late')
    expect(await next()).toBe('done')
    expect(log).toEqual(['start', 'leave'])
    expect(messages.ending.aborted).toBe(true)
  })

  it('end with a failure for the waiting reader, or for the next one, and only once', async () => {
    const one = open()
    const waiting = one.next()
    one.messages.fail(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
    expect(await one.next()).toBe('done')

    const other = open()
    const first = other.next()
    other.messages.push('1')
    await first
    other.messages.fail(new Error('gone'))
    await expect(other.next()).rejects.toThrow('gone')
    expect(await other.next()).toBe('done')
  })

  it('never begin after an abort, or after their source was disposed', async () => {
    const aborted = open()
    aborted.stop.abort()
    expect(await aborted.next()).toBe('done')
    const disposed = open({ disposed: true })
    expect(await disposed.next()).toBe('done')
    expect([...aborted.log, ...disposed.log]).toEqual(['leave', 'leave'])
  })
})
