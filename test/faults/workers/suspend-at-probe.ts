import { writeSync } from 'node:fs'
import { installProbe } from '@ackord/core/internal'

/** Sets the probe at which a worker suspends itself, once. Must be imported before the service, because modules are evaluated in order. */
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
