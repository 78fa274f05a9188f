import { Writable } from 'node:stream'
import { deferred } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { interruption } from '../../src/output/errors.ts'
import { Output } from '../../src/output/output.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { watch } from '../../src/watch/watch.ts'
import { VirtualTerminal } from '../support/virtual-terminal.ts'

it('opens a store again that has stopped answering, and closes the old connection', async () => {
  const terminal = new VirtualTerminal(80, 10)
  const output = new Output({ stdout: terminal, stderr: new Writable(), secrets: new Secrets(), json: false, terminal: true })
  const stopping = new AbortController()
  const events: string[] = []
  let opened = 0
  const failureSeen = deferred()
  const watching = watch<string>(
    { output, secrets: new Secrets(), signal: stopping.signal },
    {
      interval: 1,
      answerTimeout: 20,
      async open() {
        opened += 1
        const number = opened
        if (number === 2) await failureSeen.promise
        let reads = 0
        return {
          address: 'store',
          async read() {
            reads += 1
            // The first connection answers once, and is dead then.
            if (number === 1 && reads > 1) await deferred().promise
            return `answer of connection ${number}`
          },
          async [Symbol.asyncDispose]() {
            events.push(`closed ${number}`)
          },
        }
      },
      show: (value) => ({ object: {}, lines: () => [value] }),
    },
  )
  await terminal.until((screen) =>
    // The limit is longer if the first answer took more than 2 ms.
    /store did not answer within [\d.]+ m?s\.\nShown is the last answer\..*\n\nanswer of connection 1$/.test(screen),
  )
  failureSeen.resolve()
  await terminal.until((screen) => screen.includes('answer of connection 2'))
  expect(events).toEqual(['closed 1'])
  stopping.abort(interruption())
  expect(await watching).toBe(0)
  expect(events).toEqual(['closed 1', 'closed 2'])
})
