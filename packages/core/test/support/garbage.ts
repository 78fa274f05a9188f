import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Collects at once, so that a `WeakRef` tells whether something is still kept. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}
