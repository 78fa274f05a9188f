import { writeSync } from 'node:fs'
import { installProbe } from '@ackord/core/internal'

/** Names the probe at which a worker suspends itself, once. Imported before the service: what comes first in a program is done first. */
const { FAULT_SUSPEND_AT: point } = process.env

if (point !== undefined) {
  let isSuspended = false
  installProbe((reached) => {
    if (isSuspended || reached !== point) return
    isSuspended = true
    writeSync(1, `suspended at ${point}\n`)
    process.kill(process.pid, 'SIGSTOP')
  })
}
