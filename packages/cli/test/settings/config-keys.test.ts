import { expect, it } from 'vitest'
import type { AckordConfig } from '../../src/index.ts'
import { buildProgram } from '../../src/program.ts'
import { allSettings } from '../../src/settings/settings.ts'

// The compiler requires each key of the type here, and no other.
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
  mode: true,
  onExhausted: true,
  listen: true,
  keepPublished: true,
  inboxWindow: true,
  inboxPartitions: true,
  batchSize: true,
  concurrency: true,
  totalConcurrency: true,
  lease: true,
  publishTimeout: true,
  maxAttempts: true,
  pollInterval: true,
  shutdownTimeout: true,
  name: true,
  host: true,
  port: true,
  otlp: true,
  token: true,
}

it('a configuration file has the same keys as the commands', () => {
  const program = buildProgram({ execute: () => () => Promise.resolve(), write() {} })
  const known = new Set(allSettings(program).map(({ key }) => key))
  expect([...known].sort()).toEqual(Object.keys(typed).sort())
})
