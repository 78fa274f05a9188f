import { Writable } from 'node:stream'
import { format } from 'node:util'
import { pino } from 'pino'
import { describe, expect, it, vi } from 'vitest'
import type { Source } from '../../src/broker/source.ts'
import type { RawMessage } from '../../src/message/message.ts'
import { consoleLogger, guardLogger, type Logger, silentLogger } from '../../src/ports/observability.ts'
import { Router } from '../../src/router/router.ts'
import { trackedMessage } from '../support/tracked-message.ts'

async function failOnce(logger: Logger): Promise<void> {
  const { message } = trackedMessage({ card: '4111-secret' }, { type: 'order.place', id: 'm-1' })
  const router = new Router({ logger })
  router.handle({ type: 'order.place', handle: () => Promise.reject(new Error('The database is down.')) })
  for await (const _output of router.pipe(
    (async function* () {
      yield message
    })(),
  ))
    throw new Error('There is no output.')
}

describe('the logger port', () => {
  it('accepts pino as it is, with the error shown and the payload not', async () => {
    const lines: string[] = []
    const stream = new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk))
        done()
      },
    })
    await failOnce(pino(stream))
    const line = JSON.parse(lines.join(''))
    expect(line).toMatchObject({ level: 50, type: 'order.place', id: 'm-1', verdict: 'nack', err: { message: 'The database is down.' } })
    expect(line.err.stack).toContain('logger.test.ts')
    expect(lines.join('')).not.toContain('secret')
  })

  it('accepts the console as it is', async () => {
    const error = vi.spyOn(console, 'error').mockImplementation(() => {})
    try {
      await failOnce(console)
      expect(error).toHaveBeenCalledExactlyOnceWith(
        expect.objectContaining({ type: 'order.place', err: expect.any(Error) }),
        expect.stringContaining('The database is down.'),
      )
    } finally {
      error.mockRestore()
    }
  })

  it('has a default without debug lines, and a silent one', () => {
    const spies = (['debug', 'info', 'warn', 'error'] as const).map((level) => vi.spyOn(console, level).mockImplementation(() => {}))
    try {
      for (const level of ['debug', 'info', 'warn', 'error'] as const) {
        consoleLogger[level]({}, level)
        silentLogger[level]({}, level)
      }
      expect(spies.map((spy) => spy.mock.calls.length)).toEqual([0, 1, 1, 1])
    } finally {
      for (const spy of spies) spy.mockRestore()
    }
  })

  it('writes one line for a text and its fields, whatever they contain', () => {
    const written: string[] = []
    const spy = vi.spyOn(console, 'warn').mockImplementation((...args: unknown[]) => void written.push(format(...args)))
    const forged = 'x\n2026-01-01 FORGED line\r\u2028FORGED too'
    try {
      const error = new Error(forged, { cause: new TypeError(`${forged}\n    at forged (file.ts:1:1)`) })
      consoleLogger.warn(
        { type: forged, nested: { [forged]: [forged.repeat(3)] }, err: Object.assign(error, { code: forged }) },
        `Text. ${forged}`,
      )
      guardLogger(consoleLogger).warn({ id: 'y'.repeat(900_000), err: new Error('z'.repeat(900_000)) }, 'Long.')
    } finally {
      spy.mockRestore()
    }
    const lines = written.join('\n').split(/[\n\r\u2028]/)
    expect(lines.filter((line) => !line.startsWith('    '))).toHaveLength(2)
    expect(lines.filter((line) => /^\s*(?:2026|FORGED|at forged)/.test(line))).toEqual([])
    expect(lines.some((line) => line.startsWith('    at ') && line.includes('logger.test.ts'))).toBe(true)
    expect(written.join('').length).toBeLessThan(50_000)
  })

  it.each([
    ['a content type', { datacontenttype: 'text/x\nFORGED' }],
    ['a type', { type: 'x\nFORGED' }],
    ['an id', { type: 'order.place', id: `${'i'.repeat(900_000)}\nFORGED` }],
  ])('writes no line that a sender forged with %s', async (_what, attributes) => {
    const written: string[] = []
    const spy = vi.spyOn(console, 'error').mockImplementation((...args: unknown[]) => void written.push(format(...args)))
    try {
      const { message } = trackedMessage(new TextEncoder().encode('{}'), { type: 'order.place', id: 'm-1', ...attributes })
      const router = new Router()
      router.handle({ type: 'order.place', handle: () => Promise.reject(new Error('no')) })
      await router.run(sourceOf(message)).catch(() => {})
    } finally {
      spy.mockRestore()
    }
    expect(written).toHaveLength(1)
    expect(
      written
        .join('')
        .split('\n')
        .filter((line) => line.startsWith('FORGED')),
    ).toEqual([])
    expect(written.join('').length).toBeLessThan(30_000)
  })
})

function sourceOf(message: RawMessage): Source {
  return {
    messages: () =>
      (async function* () {
        yield message
      })(),
  }
}
