import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { Output } from '../../src/output/output.ts'
import { Secrets } from '../../src/output/secrets.ts'

/** The output of a logger, in a command that was called with the password in a URL. */
function logged(password: string, json: boolean, fields: object, text = 'It failed.'): string {
  const secrets = new Secrets()
  secrets.addUrl(`amqp://user:${password}@host`)
  const written: string[] = []
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _, done) {
      written.push(chunk)
      done()
    },
  })
  new Output({ stdout: stream, stderr: stream, secrets, json, terminal: false }).logger().warn(fields, text)
  return written.join('')
}

describe('a log line', () => {
  const password = 's3cr"et'

  it.each([
    ['a text', { reason: `refused: ${password}` }],
    ['an error', { err: new Error('failed', { cause: new Error(`${password} refused at amqp://user:${password}@host`) }) }],
    ['a list', { addresses: [`amqp://user:${password}@host`] }],
    ['an object', { first: { id: '7', error: { text: password } } }],
    ['an error in an object', { first: { error: new Error(`refused: ${password}`) } }],
    ['another URL', { address: 'nats://other:s3cr"et@host' }],
  ])('has no password in %s', (_, fields) => {
    for (const json of [true, false]) {
      const line = logged(password, json, fields)
      expect(line).toContain('***')
      expect(line).not.toMatch(/s3cr|et@/)
    }
  })

  it('has no password in its text', () => {
    expect(JSON.parse(logged(password, true, {}, `Lost ${password}.`))).toMatchObject({ text: 'Lost ***.' })
    expect(logged(password, false, {}, `Lost ${password}.`)).toMatch(/warn Lost \*\*\*\.\n$/)
  })

  it('contains the message of an error in an object', () => {
    const line = logged(password, true, { first: { id: '7', error: new Error('refused') } })
    expect(JSON.parse(line)).toMatchObject({ first: { id: '7', error: 'refused' } })
  })

  it('has the causes of an error, each once', () => {
    const cause = new Error('The broker is down.', { cause: new Error('connection refused') })
    const line = logged(password, true, { err: new Error('Not confirmed: The broker is down.', { cause }) })
    expect(JSON.parse(line)).toMatchObject({ error: 'Not confirmed: The broker is down. Cause: connection refused' })
  })

  it.each(['1', 'warn', 'time', 'true', ':', '"'])('stays JSON with the same fields if the password is %s', (odd) => {
    const line = JSON.parse(logged(odd, true, { published: 1, more: true, none: null })) as Record<string, unknown>
    expect(line).toEqual({
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      level: 'warn',
      text: 'It failed.',
      published: 1,
      more: true,
      none: null,
    })
  })
})
