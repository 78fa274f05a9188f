import { Writable } from 'node:stream'
import { pino } from 'pino'
import { describe, expect, it, vi } from 'vitest'
import { consoleLogger, type Logger, silentLogger } from '../src/logger.ts'
import { Router } from '../src/router.ts'
import { trackedMessage } from './support/tracked-message.ts'

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
  it('takes pino as it is, with the error shown and the payload not', async () => {
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

  it('takes the console as it is', async () => {
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

  it('has a default that leaves debug out, and a silent one', () => {
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
})
