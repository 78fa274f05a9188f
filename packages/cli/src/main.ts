#!/usr/bin/env node
import { systemRuntime } from '@ackord/core'
import { CommandError } from './command-error.ts'
import { exitCode } from './exit-code.ts'
import { run } from './run.ts'
import { Secrets } from './secrets.ts'

const secrets = new Secrets()
const stopping = new AbortController()
const exitCodeOf = { SIGINT: 130, SIGTERM: 143 } as const

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // Whoever asks twice does not want to wait.
    if (stopping.signal.aborted) process.exit(exitCodeOf[signal])
    stopping.abort(new CommandError('Interrupted.', { exitCode: exitCode.interrupted }))
  })
}

// A reader that has seen enough (`ackord list | head`) is no failure. A relay goes on without one, and so does whatever has something to stop.
let stopsItself = false
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (!stopsItself) process.exit(error.code === 'EPIPE' ? 0 : 1)
})
// A failure that nobody reads has its exit code.
process.stderr.on('error', () => {})

// A client that fails in a way nobody waits for must not print a stack, in which there may be an address with its password.
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, (error: unknown) => {
    console.error(`ackord: failed unexpectedly: ${secrets.mask(error instanceof Error ? error.message : String(error))}`)
    process.exit(1)
  })
}

process.exitCode = await run({
  args: process.argv.slice(2),
  environment: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  secrets,
  signal: stopping.signal,
  onStopsItself() {
    stopsItself = true
  },
})

// All is closed by now. A client that holds on to a timer must not keep the user waiting.
systemRuntime.setTimeout(() => process.exit(), 500, { keepAlive: false })
