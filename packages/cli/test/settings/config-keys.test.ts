import { expect, it } from 'vitest'
import type { AckordConfig } from '../../src/index.ts'
import { buildProgram } from '../../src/program.ts'
import { allSettings } from '../../src/settings/settings.ts'

// The compiler wants each key of the type here, and no other.
const typed: Record<keyof AckordConfig, true> = {
  store: true,
  broker: true,
  schema: true,
  prefix: true,
  outbox: true,
  stream: true,
  tag: true,
  shards: true,
  map: true,
  destinations: true,
  deadLetter: true,
  order: true,
  onExhausted: true,
  listen: true,
  keepPublished: true,
  inboxWindow: true,
  batchSize: true,
  concurrency: true,
  lease: true,
  publishTimeout: true,
  maxAttempts: true,
  pollInterval: true,
  shutdownTimeout: true,
  name: true,
  host: true,
  port: true,
}

it('gives a configuration file the keys that the commands have, and no others', () => {
  const program = buildProgram({ execute: () => () => Promise.resolve(), write() {} })
  const known = new Set(allSettings(program).map(({ key }) => key))
  expect([...known].sort()).toEqual(Object.keys(typed).sort())
})
