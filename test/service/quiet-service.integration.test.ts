import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSchema } from '../../packages/sql/test/support/own-schema.ts'
import { bundle } from '../../scripts/bundle.mjs'
import { ownName } from '../../scripts/test-run.mjs'

const anywhere = [
  'A message was not handled. Gave up on',
  'A message was not handled. It makes no sense.',
  'A message was not handled. Cannot read the data',
  'An attempt failed and will be repeated.',
  'A destination is down.',
]
const deadLetterFailed = 'The dead letter did not take a rejected message; it will be delivered again.'

/** What each part logs: the source, its dead letter, its connection, the publisher, the store. */
const kinds: readonly (readonly [kind: string, expected: readonly string[]])[] = [
  [
    'PostgreSQL and RabbitMQ',
    [
      ...anywhere,
      deadLetterFailed,
      'The queue is not consumed',
      'The connection to RabbitMQ failed.',
      'An idle connection to the database broke',
    ],
  ],
  [
    'PostgreSQL and NATS',
    [
      ...anywhere,
      'A message was rejected, but its source has no deadLetter',
      'The consumer is not read',
      'An idle connection to the database broke',
    ],
  ],
  ['Redis and Redis Streams', [...anywhere, deadLetterFailed, 'The stream cannot be read']],
]

// Below this folder, whose packages it needs.
const file = fileURLToPath(new URL(`../.cache/quiet-service-${process.pid}.mjs`, import.meta.url))
beforeAll(() => bundle(fileURLToPath(new URL('quiet-service.ts', import.meta.url)), file))
afterAll(() => {
  for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
})

describe('a service with a JSON logger, whose parts were created without one,', () => {
  it.each(kinds)(
    'writes nothing but JSON lines on %s, whatever fails',
    async (kind, expected) => {
      await using own = await openSchema()
      const name = `ackord-test-${ownName()}`
      const env = {
        ...process.env,
        QUIET_KIND: kind,
        QUIET_NAME: name,
        QUIET_SCHEMA: own.schema,
        QUIET_EXPECTED: JSON.stringify(expected),
      }
      const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'pipe'] })
      let [output, errors] = ['', '']
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        output += chunk
      })
      child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        errors += chunk
      })
      const [code] = (await once(child, 'close')) as [number | null]
      expect(errors).toBe('')
      const lines = output.trim().split('\n')
      expect(lines.filter((line) => !isLine(line))).toEqual([])
      expect(code).toBe(0)
      const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
      const rejected = logged.find(({ msg }) => String(msg).startsWith('A message was not handled. It makes no sense.'))
      expect(rejected).toMatchObject({
        type: 'order.place',
        id: 'm-makes no sense',
        source: '/shop',
        origin: expect.stringContaining(name),
        deliveryCount: expect.any(Number),
        verdict: 'reject',
      })
      // The program gives up after two minutes, and says which lines are missing.
    },
    150_000,
  )
})

function isLine(line: string): boolean {
  try {
    const { level, msg } = JSON.parse(line) as Record<string, unknown>
    return typeof level === 'number' && typeof msg === 'string'
  } catch {
    return false
  }
}
