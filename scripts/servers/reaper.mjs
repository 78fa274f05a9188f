// @ts-check
// The program behind orphans.mjs. It reads one JSON line per change on stdin. End of input means that whoever started
// the servers is gone, in whichever way: then it ends what is left and removes what is left over.
import { createInterface } from 'node:readline'
import { removePath } from './remove-path.mjs'
import { askToEnd, isGroupGone, signalProcess } from './signal-process.mjs'
import { waitUntil } from './wait-until.mjs'

/** @type {Map<number, NodeJS.Signals>} */
const processes = new Map()
/** @type {Set<string>} */
const paths = new Set()

for await (const line of createInterface({ input: process.stdin })) {
  if (!line.endsWith('}')) continue // cut off by the end of its writer
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
