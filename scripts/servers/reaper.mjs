// @ts-check
// The program behind orphans.mjs. It reads one JSON line per change on stdin. End of input means that the process that started
// the servers has ended, for whatever reason: then the reaper ends the remaining processes and removes the remaining files.
import { createInterface } from 'node:readline'
import { removePath } from './remove-path.mjs'
import { askToEnd, isGroupGone, signalProcess } from './signal-process.mjs'
import { waitUntil } from './wait-until.mjs'

/** @type {Map<number, NodeJS.Signals>} */
const processes = new Map()
/** @type {Set<string>} */
const paths = new Set()

for await (const line of createInterface({ input: process.stdin })) {
  if (!line.endsWith('}')) continue // truncated when its writer ended
  const { pid, signal, path, gone } = JSON.parse(line)
  if (pid !== undefined && !gone) processes.set(pid, signal)
  else if (pid !== undefined) processes.delete(pid)
  else if (!gone) paths.add(path)
  else paths.delete(path)
}

await Promise.all([...processes].map(([pid, signal]) => end(pid, signal)))
await Promise.allSettled([...paths].map(removePath))

/**
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
async function end(pid, signal) {
  askToEnd(pid, signal)
  const isGone = () => isGroupGone(pid)
  await waitUntil('the end', isGone, { timeout: 5_000 }).catch(() => signalProcess(-pid, 'SIGKILL'))
  await waitUntil('the end', isGone, { timeout: 1_000 }).catch(() => signalProcess(pid, 'SIGKILL'))
}
