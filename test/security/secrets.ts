import { inspect } from 'node:util'
import { type Logger, Router, type Source } from '@ackord/core'
import { deferred, recordingLogger } from '@ackord/testkit'
import { expect } from 'vitest'

export const password = 'pw7hunter2'
export const payload = 'payload7secret'

export interface Telling {
  readonly logger: Logger
  readonly hear: (thing: unknown) => void
  readonly heard: () => string
}

/** Collects all output: log lines with their fields, errors with stacks, causes and properties. */
export function telling(): Telling {
  const logger = recordingLogger()
  const things: unknown[] = []
  return {
    logger,
    hear: (thing) => things.push(thing),
    heard: () =>
      [...logger.lines, ...things]
        .map((each) => inspect(each, { depth: 12, showHidden: true, maxArrayLength: null, maxStringLength: null }))
        .join('\n'),
  }
}

/** The secret as text, and in the forms in which bytes are printed: hexadecimal, base64 at every alignment, or numbers. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const hex = bytes.toString('hex')
  // Base64 characters that share bits with the bytes before or after the secret are unpredictable, and are dropped.
  const base64 = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    return encoded.slice(before === 0 ? 0 : before + 1, -4)
  })
  return [secret, hex, hex.replaceAll(/(..)(?=.)/g, '$1 '), ...base64, [...bytes].join(' ')]
}

export function expectNoSecrets(heard: string): void {
  expect(heard.length).toBeGreaterThan(100)
  const plain = heard.replaceAll(/[\s,]+/g, ' ')
  const found = [password, payload].flatMap(formsOf).filter((form) => plain.includes(form))
  expect(found.map((form) => plain.slice(Math.max(0, plain.indexOf(form) - 300), plain.indexOf(form) + 100))).toEqual([])
}

/** Makes a handler fail with one message of the source. */
export async function handleInVain(source: Source, { logger, hear }: Telling): Promise<void> {
  const handled = deferred()
  const router = new Router({ logger }).handle({
    type: 'order.place',
    async handle() {
      handled.resolve()
      throw new Error('out of stock')
    },
  })
  const running = router.run(source)
  await handled.promise
  await router.stop()
  await running
  hear(router.health())
}
