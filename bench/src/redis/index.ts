import { handlingFigures } from './handling.ts'
import { streamFigures } from './stream.ts'

/** Redis: exactly-once handling against the hand-written equivalent, and the stream relay against a raw loop. */
export async function redis(): Promise<Record<string, unknown>> {
  return { ...(await handlingFigures()), ...(await streamFigures()) }
}
