import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { AckordError } from '../../src/errors.ts'
import { maxLabelValues } from '../../src/ports/metric-labels.ts'
import type { MetricLabels } from '../../src/ports/metrics.ts'
import { guardLogger, guardMetrics } from '../../src/ports/observability.ts'
import { describeError, messageOf, redactDestination, redactError, redactUrls } from '../../src/ports/redact.ts'
import { recordingLogger } from '../support/recording-logger.ts'

const secret = 'pw7hunter2'

function everything(value: unknown): string {
  return inspect(value, { depth: 12, showHidden: true, maxStringLength: null, maxArrayLength: null })
}

describe('destinations', () => {
  it.each([
    ['orders', 'orders'],
    ['https://host/path', 'https://host/path'],
    [`https://user:${secret}@host:8443/path`, 'https://host:8443/path'],
    [`https://host/path?token=${secret}&x=1#${secret}`, 'https://host/path?…'],
    [`https://host/path#${secret}`, 'https://host/path#…'],
    [`nats://${secret}@host:4222`, 'nats://host:4222'],
    [`http://user:a@b${secret}@host/`, 'http://host/'],
    [`http://user:a/${secret}@host/x`, 'http://host/x'],
    ['http://[::1]:80/x', 'http://[::1]:80/x'],
    ['https://host/@scope/name', 'https://host/@scope/name'],
    // `fetch` accepts all of these.
    [` https://user:${secret}@host/x`, 'https://host/x'],
    [`https:/user:${secret}@host/x`, 'https:/host/x'],
    [`https:user:${secret}@host/x`, 'https:host/x'],
    [`jdbc:postgresql://host/x?password=${secret}`, 'jdbc:postgresql://host/x?…'],
    ['orders:placed', 'orders:placed'],
  ])('%s is shown as %s', (destination, shown) => {
    expect(redactDestination(destination)).toBe(shown)
  })

  it('are found within a text', () => {
    const text = `Cannot reach 'https://user:${secret}@host/a?token=${secret}', nor amqp://u:${secret}@broker/vhost.`
    expect(redactUrls(text)).toBe("Cannot reach 'https://host/a?…', nor amqp://broker/vhost.")
  })

  it('are found in a list without spaces, and in the path or query of another URL', () => {
    expect(redactUrls(`redis://u:${secret}@h1,redis://u:${secret}@h2`)).toBe('redis://h1,redis://h2')
    expect(redactUrls(`http://a,https://u:${secret}@b/x`)).toBe('http://a,https://b/x')
    expect(redactUrls(`https://proxy/https://u:${secret}@b/x?token=${secret}`)).toBe('https://proxy/https://b/x?…')
    expect(redactUrls(`https://a/?next=https://b/&token=${secret}`)).toBe('https://a/?…')
    expect(redactUrls(`https://u:${secret}://${secret}@host/x`)).not.toContain(secret)
  })

  it.each(["'", '"', '<', '`'])('may have %s in their password, within a text too', (quote) => {
    expect(redactUrls(`Publishing to 'https://user:it${quote}${secret}@host/a' failed.`)).toBe("Publishing to 'https://host/a' failed.")
    expect(redactUrls(`${quote}https://host/a${quote}, told to ${quote}me@host${quote}`)).toContain('https://host/a')
  })

  it('are limited in length and on one line', () => {
    expect(redactDestination(`a\nb${'x'.repeat(1000)}`)).toMatch(/^a\\nbx+… \(1003 characters\)$/)
  })
})

/** Errors of drivers, as far as they contain values. */
const driverErrors: Record<string, Error> = {
  'pg, a unique violation': Object.assign(new Error('duplicate key value violates unique constraint "orders_pkey"'), {
    code: '23505',
    detail: `Key (email)=(${secret}) already exists.`,
    where: `unnamed portal parameter $1 = '${secret}'`,
    hint: secret,
    internalQuery: `SELECT '${secret}'`,
    table: 'orders',
  }),
  'pg, a value of the wrong form': Object.assign(new Error(`invalid input syntax for type integer: "${secret}"`), { code: '22P02' }),
  'postgres.js': Object.defineProperties(Object.assign(new Error('broken'), { code: '23505' }), {
    query: { value: `insert into t values ('${secret}')`, enumerable: false },
    parameters: { value: [secret], enumerable: false },
  }),
  mysql2: Object.assign(new Error(`Duplicate entry '${secret}' for key 'email'`), {
    code: 'ER_DUP_ENTRY',
    errno: 1062,
    sql: `INSERT INTO t VALUES ('${secret}')`,
    sqlState: '23000',
    sqlMessage: `Duplicate entry '${secret}' for key 'email'`,
  }),
  'mysql2, a value of the wrong form': Object.assign(new Error(`Incorrect integer value: '${secret}' for column 'n' at row 1`), {
    errno: 1366,
  }),
  'mysql2, a syntax error': Object.assign(
    new Error(`You have an error in your SQL syntax; check the manual for the right syntax to use near '${secret}' at line 1`),
    { errno: 1064 },
  ),
  mariadb: Object.assign(
    new Error(
      `(conn=3, no: 1062, SQLState: 23000) Duplicate entry '${secret}' for key 'k'\nsql: INSERT INTO t VALUES (?) - parameters:['${secret}']`,
    ),
    { errno: 1062, sql: secret },
  ),
  ioredis: Object.assign(new Error('WRONGTYPE Operation against a key holding the wrong kind of value'), {
    command: { name: 'set', args: ['key', secret] },
  }),
  'Redis, an unknown command': new Error(`ERR unknown command 'FOO', with args beginning with: '${secret}'`),
  drizzle: new Error(`Failed query: insert into "t" values ($1)\nparams: ${secret}`, {
    cause: Object.assign(new Error('duplicate key'), { detail: secret }),
  }),
  knex: Object.assign(new Error(`insert into "t" ("a") values ('${secret}') - duplicate key value violates unique constraint "t_a"`), {
    code: '23505',
  }),
  typeorm: Object.assign(new Error('duplicate key'), {
    query: 'INSERT',
    parameters: [secret],
    driverError: Object.assign(new Error('duplicate key'), { detail: secret }),
  }),
  'an HTTP client': Object.assign(new Error('Request failed with status code 500'), {
    config: { headers: { authorization: secret } },
    request: { headers: [secret] },
    response: { data: secret },
  }),
  'a URL in the message': new Error(`connect ECONNREFUSED https://user:${secret}@host/?token=${secret}`),
  'several at once': new AggregateError([Object.assign(new Error('one'), { detail: secret })], 'All failed.'),
  'an error of ours around it': new AckordError('ACKORD_PUBLISH_FAILED', 'It failed.', {
    cause: Object.assign(new Error('duplicate key'), { detail: secret }),
  }),
}

describe('errors of drivers', () => {
  it.each(Object.entries(driverErrors))('%s: a log line has neither values nor secrets', (_name, error) => {
    const logger = recordingLogger()
    guardLogger(logger).error({ destination: 'orders', err: error }, `It failed. ${messageOf(error)}`)
    expect(everything(error)).toContain(secret)
    expect(everything(logger.lines)).not.toContain(secret)
    expect(describeError(error, 1000)).not.toContain(secret)
    const [line] = logger.lines
    const { err } = (line?.fields ?? {}) as { err: Error }
    expect(err).toBeInstanceOf(error.constructor)
    expect(err.stack).toContain('redact.test.ts')
  })

  it('keep the information that an operator needs', () => {
    const { 'pg, a unique violation': pg, mysql2, knex } = driverErrors as Record<string, Error>
    expect(redactError(pg as Error)).toMatchObject({ code: '23505', table: 'orders', message: pg?.message })
    expect(messageOf(mysql2 as Error)).toBe("Duplicate entry '…' for key 'email'")
    expect(messageOf(knex as Error)).toBe('duplicate key value violates unique constraint "t_a"')
  })

  it('are redacted in little time, whatever a sender has put into a text of a megabyte', () => {
    const parts = [
      '\n',
      ' from',
      'select a from',
      'incorrect ',
      '"',
      "Duplicate entry '",
      "syntax to use near '",
      'a.',
      'a://',
      '://@',
      ' - ',
      ':',
    ]
    const startedAt = performance.now()
    for (const start of ['', 'select a', 'update a set ', 'a://'])
      for (const part of parts) messageOf(new Error(start + part.repeat(1_000_000 / part.length)))
    expect(performance.now() - startedAt).toBeLessThan(5000)
  }, 60_000)

  it('hide a value whose end is not quoted', () => {
    const open = [`Duplicate entry '${secret}`, `Incorrect date value: '${secret}`, `the right syntax to use near '${secret}`]
    for (const text of open) expect(messageOf(new Error(text))).not.toContain(secret)
  })

  it('are passed on unchanged if there is nothing to hide', () => {
    const error = new AckordError('ACKORD_PUBLISH_FAILED', 'It failed.', {
      cause: Object.assign(new Error('no route'), { code: 'ENETUNREACH', errno: 5 }),
    })
    expect(redactError(error)).toBe(error)
  })

  it('show nothing of the clients and other objects that they contain', () => {
    class Client {
      readonly password = secret
    }
    const error = Object.assign(new Error('terminated'), { client: new Client(), known: new Map([['a', secret]]), at: new Date(5) })
    expect(everything(redactError(error))).not.toContain(secret)
    expect(redactError(error)).toMatchObject({ client: 'an instance of Client', known: 'an instance of Map', at: new Date(5) })
  })

  it('are logged also if one of their properties cannot be read', () => {
    const logger = recordingLogger()
    const unreadable = {
      enumerable: true,
      get: () => {
        throw new Error('not now')
      },
    }
    const err = Object.defineProperty(new Error('It failed.'), 'lazy', unreadable)
    guardLogger(logger).error({ err, more: Object.defineProperty({ count: 1 }, 'lazy', unreadable) }, 'line')
    expect(logger.lines).toMatchObject([{ fields: { err: { message: 'It failed.' }, more: { count: 1 } } }])
  })

  it('show their inner errors if they have no message, as of a host that refused the connection at each of its addresses', () => {
    const refused = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}:5432`))
    const error = new AggregateError(refused, '')
    const text = 'connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432'
    expect(messageOf(error)).toBe(text)
    expect(describeError(new Error('No connection.', { cause: error }), 1000)).toBe(`No connection. Cause: ${text}`)
    const endless = new AggregateError([], '')
    endless.errors.push(endless)
    expect(messageOf(endless)).toBe('')
  })

  it('may be their own cause', () => {
    const error = new Error('a')
    error.cause = error
    expect(redactError(error).message).toBe('a')
  })
})

describe('fields of a log line', () => {
  it('are limited in length, on one line and without secrets, whichever logger gets them', () => {
    const logger = recordingLogger()
    guardLogger(logger).warn(
      {
        type: 'a\nb',
        id: 'x'.repeat(900_000),
        destination: `https://u:${secret}@host/?t=${secret}`,
        destinations: [`https://u:${secret}@host/`],
        nested: { url: new URL(`https://u:${secret}@host/`), data: secret, ['bad\nname']: 1 },
        bytes: Buffer.from(secret),
        count: 3,
      },
      `told\nof ${secret.length} https://u:${secret}@host/`,
    )
    const [line] = logger.lines
    expect(line?.fields).toEqual({
      type: 'a\\nb',
      id: `${'x'.repeat(1000)}… (900000 characters)`,
      destination: 'https://host/?…',
      destinations: ['https://host/'],
      nested: { url: 'https://host/', 'bad\\nname': 1 },
      bytes: '10 bytes',
      count: 3,
    })
    expect(line?.text).toBe('told\\nof 10 https://host/')
  })

  it('show no part of a password at the point where a text is truncated', () => {
    const logger = recordingLogger()
    const text = `${'x'.repeat(980)} https://user:${secret}${secret}@host/ ${'y'.repeat(5000)}`
    guardLogger(logger).warn({ text }, 'line')
    expect(everything(logger.lines)).not.toContain('pw7')
  })

  it('are the same object if nothing has to be changed', () => {
    const fields = { type: 'order.placed', nested: { count: 1 }, list: ['a'], err: new Error('b'), at: new Date(5) }
    let given: object | undefined
    const keep = (each: object) => {
      given = each
    }
    guardLogger({ debug: keep, info: keep, warn: keep, error: keep }).warn(fields, 'line')
    expect(given).toBe(fields)
  })
})

describe('metric labels', () => {
  it('are redacted, and past a number of values they are `other`', () => {
    const seen: MetricLabels[] = []
    const record = (_name: string, _value: number, labels: MetricLabels) => void seen.push(labels)
    const port = { count: record, observe: record, gauge: record }
    const metrics = guardMetrics(port)
    metrics.count('ackord.messages', 1, { destination: `https://u:${secret}@host/?token=${secret}`, outcome: 'ok' })
    expect(seen).toEqual([{ destination: 'https://host/?…', outcome: 'ok' }])
    for (let index = 0; index < 5000; index += 1) metrics.gauge('ackord.in_flight', 1, { type: `type-${index}`, outcome: 'ok' })
    // Another wrapper of the same port shares the limit.
    guardMetrics(port).observe('ackord.duration', 1, { type: 'x'.repeat(10_000), outcome: 'ok' })
    expect(new Set(seen.map(({ type }) => type)).size).toBeLessThanOrEqual(maxLabelValues + 2)
    expect(seen.at(-1)).toEqual({ type: 'other', outcome: 'ok' })
    metrics.count('ackord.messages', 1, { type: 'type-5' })
    expect(seen.at(-1)).toEqual({ type: 'type-5' })
  })
})
