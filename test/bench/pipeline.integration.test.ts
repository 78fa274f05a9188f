import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { bundle } from '../../scripts/bundle.mjs'
import { isProof } from '../../scripts/test-depth.mjs'

const source = new URL('../../bench/src/pipeline/', import.meta.url)
// Where the programs can resolve the benchmark's own clients.
const folder = new URL(`../../bench/node_modules/.cache/${process.pid}/`, import.meta.url)

// Beside each other, as in `bench/dist`: the benchmark starts `process.js`.
beforeAll(async () => {
  await bundle(fileURLToPath(new URL('../main.ts', source)), fileURLToPath(new URL('main.js', folder)))
  await bundle(fileURLToPath(new URL('process.ts', source)), fileURLToPath(new URL('process.js', folder)))
})

afterAll(() => rmSync(folder, { recursive: true }))

const { variant, prefixes } = isProof
  ? { variant: 'short', prefixes: ['rabbitmq_1_relay', 'nats_1_relay', 'redis_1_relay', 'memory_1_relay'] }
  : { variant: 'shortest', prefixes: ['redis_2_relays', 'memory_2_relays'] }

it('carries every order through both services, and prints one line of JSON', async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('main.js', folder)), 'pipeline', '--variant', variant, '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  expect(code, errors).toBe(0)
  expect(output.trimEnd()).not.toContain('\n')
  const figures: Record<string, number> = JSON.parse(output)
  for (const prefix of prefixes) {
    for (const measure of ['per_s', 'latency_p50_ms', 'latency_p99_ms', 'cpu_us', 'wal_bytes']) {
      const name = `${prefix}_${measure}`
      expect(figures[name], name).toBeGreaterThan(0)
      expect([figures[`${name}_min`], figures[`${name}_max`]], 'a single round has no spread').toEqual([figures[name], figures[name]])
    }
    expect(figures[`${prefix}_latency_p99_ms`]).toBeGreaterThanOrEqual(figures[`${prefix}_latency_p50_ms`] ?? Infinity)
  }
})
